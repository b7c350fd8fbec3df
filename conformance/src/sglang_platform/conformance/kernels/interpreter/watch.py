"""Watches what an interpreted kernel reads and writes.

Reported, with the kernel, the program and the tensor:

- a lane that is not masked and whose address is no element of any tensor of the launch;
- two programs that store to one address, or one program that stores two different values there at once;
- a program that reads what another one of the same launch stores: programs run in no order.

Atomic operations are checked for their addresses only.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np

from sglang_platform.conformance.kernels.interpreter.arena import Arena

__all__ = ["AccessError", "install"]


class AccessError(Exception):
    """A kernel touched memory it must not touch, or in an order that a device does not keep."""


class _Launch:
    """What the programs of one launch did."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.arena = Arena()
        self.program = 0
        self.place: tuple[int, int, int] = (0, 0, 0)
        self.stores: list[tuple[np.ndarray, int, int]] = []
        self.loads: list[tuple[np.ndarray, int, int]] = []

    def check(self, ptrs: np.ndarray, mask: np.ndarray, item: int, what: str) -> np.ndarray:
        """The addresses of the active lanes, flat. Raises AccessError for one outside."""
        addresses = np.asarray(ptrs)[_active(mask, ptrs)].reshape(-1)
        bad = self.arena.outside(addresses, item)
        if bad.any():
            first = int(addresses[bad][0])
            raise AccessError(
                f"{self.kernel}: {int(bad.sum())} of {addresses.size} active lanes of a {what} in program {self.place} "
                f"are out of bounds; the first is {self.arena.nearest(first)}"
            )
        return addresses

    def finish(self) -> None:
        """Raises AccessError for conflicts between programs."""
        if not self.stores:
            return
        stored, owner = _bytes(self.stores)
        free = ~self.arena.may_conflict(stored)
        stored, owner = stored[free], owner[free]
        order = np.lexsort((owner, stored))
        stored, owner = stored[order], owner[order]
        clash = np.flatnonzero((stored[1:] == stored[:-1]) & (owner[1:] != owner[:-1]))
        if clash.size:
            at = clash[0]
            raise AccessError(
                f"{self.kernel}: programs {int(owner[at])} and {int(owner[at + 1])} store to one address, "
                f"{self.arena.nearest(int(stored[at]))}"
            )
        if not self.loads or not stored.size:
            return
        loaded, reader = _bytes(self.loads)
        at = np.minimum(np.searchsorted(stored, loaded), stored.size - 1)
        race = np.flatnonzero((stored[at] == loaded) & (owner[at] != reader))
        if race.size:
            first = race[0]
            raise AccessError(
                f"{self.kernel}: program {int(reader[first])} reads what program {int(owner[at[first]])} stores, "
                f"{self.arena.nearest(int(loaded[first]))}"
            )


_launch: _Launch | None = None


def install() -> None:
    """Idempotent; lasts for the process."""
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    if getattr(builder, "_watched", False):
        return
    _watch_accesses(builder)
    _watch_launches(interpreter)
    builder._watched = True


def _watch_accesses(builder: Any) -> None:
    load, store = builder.create_masked_load, builder.create_masked_store
    rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

    def item(ptr: Any) -> int:
        return max(1, ptr.get_element_ty().primitive_bitwidth // 8)

    def create_masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        if _launch is not None:
            addresses = _launch.check(ptrs.data, mask.data, item(ptrs), "load")
            _launch.loads.append((addresses, item(ptrs), _launch.program))
        return load(self, ptrs, mask, *rest, **named)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        if _launch is not None:
            addresses = _launch.check(ptrs.data, mask.data, item(ptrs), "store")
            _one_value_each(ptrs.data, value.data, mask.data, _launch)
            _launch.stores.append((addresses, item(ptrs), _launch.program))
        return store(self, ptrs, value, mask, *rest, **named)

    def create_atomic_rmw(self: Any, operation: Any, ptr: Any, val: Any, mask: Any, *rest: Any) -> Any:
        if _launch is not None:
            _launch.check(ptr.data, mask.data, item(ptr), "atomic operation")
        return rmw(self, operation, ptr, val, mask, *rest)

    def create_atomic_cas(self: Any, ptr: Any, *rest: Any) -> Any:
        if _launch is not None:
            _launch.check(ptr.data, np.ones(np.shape(ptr.data), dtype=bool), item(ptr), "atomic operation")
        return cas(self, ptr, *rest)

    set_grid_idx = builder.set_grid_idx

    def enter_program(self: Any, x: int, y: int, z: int) -> None:
        set_grid_idx(self, x, y, z)
        if _launch is not None:
            _launch.place = (x, y, z)
            _launch.program = (x * self.grid_dim[1] + y) * self.grid_dim[2] + z

    builder.create_masked_load = create_masked_load
    builder.create_masked_store = create_masked_store
    builder.create_atomic_rmw = create_atomic_rmw
    builder.create_atomic_cas = create_atomic_cas
    builder.set_grid_idx = enter_program


def _watch_launches(interpreter: Any) -> None:
    executor = interpreter.GridExecutor

    def to_arena(self: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        assert _launch is not None
        names = list(inspect.signature(self.fn).parameters)
        moved = [_moved(_launch.arena, arg, names[i]) for i, arg in enumerate(args)]
        return moved, {name: _moved(_launch.arena, arg, name) for name, arg in kwargs.items()}

    def from_arena(self: Any, args: Any, moved: Any, kwargs: Any, moved_kwargs: Any) -> None:
        assert _launch is not None
        _launch.arena.copy_back(arg for arg in (*args, *kwargs.values()) if hasattr(arg, "untyped_storage"))

    run = executor.__call__

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        global _launch
        outer, _launch = _launch, _Launch(self.fn.__name__)
        try:
            run(self, *args, **kwargs)
            _launch.finish()
        except interpreter.InterpreterError as error:
            if isinstance(error.__cause__, AccessError):
                raise error.__cause__ from None
            raise
        finally:
            _launch = outer

    executor._init_args_hst = to_arena
    executor._restore_args_dev = from_arena
    executor.__call__ = launch


def _active(mask: np.ndarray, ptrs: np.ndarray) -> np.ndarray:
    # The interpreter's masks may be integers, which would select by index.
    return np.broadcast_to(np.asarray(mask).astype(np.bool_), np.shape(ptrs))


def _moved(arena: Arena, arg: Any, name: str) -> Any:
    if hasattr(arg, "untyped_storage"):
        return arena.move(arg, name)
    if hasattr(arg, "base") and hasattr(arg, "block_shape"):  # a tensor descriptor made on the host
        return replace(arg, base=arena.move(arg.base, name))
    return arg


def _one_value_each(ptrs: np.ndarray, values: np.ndarray, mask: np.ndarray, launch: _Launch) -> None:
    active = _active(mask, ptrs).reshape(-1)
    addresses = np.asarray(ptrs).reshape(-1)[active]
    if addresses.size < 2:
        return
    stored = np.broadcast_to(values, np.shape(ptrs)).reshape(-1)[active]
    stored = stored.view(f"u{stored.itemsize}")
    order = np.argsort(addresses, kind="stable")
    addresses, stored = addresses[order], stored[order]
    clash = np.flatnonzero((addresses[1:] == addresses[:-1]) & (stored[1:] != stored[:-1]))
    clash = clash[~launch.arena.may_conflict(addresses[clash])]
    if clash.size:
        raise AccessError(
            f"{launch.kernel}: program {launch.place} stores two values to one address, "
            f"{launch.arena.nearest(int(addresses[clash[0]]))}"
        )


def _bytes(accesses: list[tuple[np.ndarray, int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Every byte touched and the program that touched it."""
    touched, owners = [], []
    for addresses, item, program in accesses:
        unique = np.unique(addresses).astype(np.int64)
        touched.append((unique[:, None] + np.arange(item)).reshape(-1))
        owners.append(np.full(touched[-1].shape, program, dtype=np.int64))
    return np.concatenate(touched), np.concatenate(owners)
