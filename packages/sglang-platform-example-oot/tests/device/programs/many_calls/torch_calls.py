"""Calls of torch's own operators, from their schemas: arguments that fit each other more often than not."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import torch
from recipes import (
    FLOATS,
    HUGE,
    INTEGERS,
    LAYOUTS,
    NUMBERS,
    RARE,
    VALUES,
    Call,
    Device,
    Many,
    Plain,
    Shared,
    Tensor,
)

LEFT_OUT = re.compile(
    r"cudnn|cuda|miopen|_mps|xpu|vulkan|hpu|from_file|record_stream|_assert|_async_error|get_gradients|_dimI|_cslt"
    r"|get_device|_backward$|_dummy|allocate|_linalg_check|sym_|_print|_make_dep_token|_fw_primal"
)
"""Other devices' operators, those that touch files or abort by intent, and what only autograd calls."""

DIFFER = re.compile(
    r"rand|dropout|bernoulli|multinomial|normal|poisson|exponential|geometric|cauchy|uniform|rrelu|binomial"
    r"|standard_gamma|dirichlet|empty|resize|gumbel|new_full|::set_?$|_philox|seed|svd|eig|qr|lobpcg|geqrf|_coalesce"
    r"|orgqr|householder|lstsq|_pack|_nested|data_ptr|fractional_max"
    r"|linspace|logspace|_stack|_fused_sdp_choice|_autocast_to_\w+_precision|_cholesky_solve_helper"
)
"""Random or uninitialised results, decompositions with several right answers, shapes that only the CPU leaves, choices
among kernels that each device makes for itself, what torch does for the CPU and CUDA alone (casts of autocast), and
what hands LAPACK sizes unchecked, which then reads past its matrices (`_cholesky_solve_helper` of no square)."""

WORDS = [
    "sum",
    "mean",
    "none",
    "",
    "reflect",
    "constant",
    "amax",
    "prod",
    "ij",
    "S",
    "trunc",
    "floor",
    "reduced",
    "x",
]
INDICES = re.compile(r"ind(ex|ices)|idx|offset|length|batch_sizes|target|lens|sizes")


def operators(device_key: str = "PrivateUse1") -> list[str]:
    """Every operator of torch that the device answers."""
    computed = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    return sorted(
        name
        for name in names
        if not LEFT_OUT.search(name.partition(".")[0])
        and computed(name, device_key)
        and computed(name, "CPU")
    )


def overload(name: str) -> Any:
    """The operator `namespace::name.overload` as a callable."""
    space, _, rest = name.partition("::")
    packet, _, variant = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), variant or "default")


class Drawer:
    """Draws one call of one operator: `shape` and `dtype` are what most of its tensors have."""

    def __init__(self, draw: random.Random, name: str) -> None:
        self.draw, self.name = draw, name
        even = draw.random() < 0.4
        dims, size = draw.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]), draw.choice([1, 2, 3, 4, 8])
        self.shape = tuple(size if even else draw.choice([0, 1, 2, 3, 4, 5, 8]) for _ in range(dims))
        self.dtype = self._dtype()
        self.careful = draw.random() < 0.35  # nothing hostile: most calls would else end at the first check

    def _dtype(self) -> torch.dtype:
        kind = self.draw.random()
        if kind < 0.5:
            return torch.float32
        return self.draw.choice(FLOATS if kind < 0.75 else INTEGERS if kind < 0.93 else RARE)

    def call(self) -> Call:
        schema = overload(self.name)._schema
        call = Call(self.name, compare=not DIFFER.search(self.name.partition(".")[0]))
        written = set()
        for at, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written.add(at)
        for at, argument in enumerate(schema.arguments):
            if argument.has_default_value() and self.draw.random() < 0.5 and at not in written:
                if not argument.kwarg_only:
                    if all(a.has_default_value() or a.kwarg_only for a in schema.arguments[at:]):
                        self._named(call, schema, at)
                        return call
                    call.positional.append(Plain(argument.default_value))
                continue
            recipe = self._value(str(argument.type), argument.name, at)
            if at in written and not self.careful and self.draw.random() < 0.15 and at:
                recipe, call.compare = Shared(self.draw.randrange(at), self.draw.choice([0, 0, 1])), False
            if argument.kwarg_only:
                call.named[argument.name] = recipe
            else:
                call.positional.append(recipe)
        return call

    def _named(self, call: Call, schema: Any, after: int) -> None:
        for at, argument in enumerate(schema.arguments):
            if at >= after and argument.kwarg_only and not argument.has_default_value():
                call.named[argument.name] = self._value(str(argument.type), argument.name, at)

    def _value(self, kind: str, name: str, at: int) -> Any:
        draw = self.draw
        if kind.startswith("Optional["):
            return Plain(None) if draw.random() < 0.4 else self._value(kind[9:-1], name, at)
        if kind == "Tensor":
            return self._tensor(name)
        if kind.startswith("List["):
            if kind == "List[int]":
                return Plain([self._integer(name) for _ in range(draw.choice([len(self.shape), 1, 2, 2, 3]))])
            items = tuple(self._value(kind[5:-1], name, at) for _ in range(draw.choice([0, 1, 2, 2, 3])))
            return Many(items)
        if kind == "Device":
            return Device(draw.choice(["here", "here", "here", "cpu", "meta"]))
        if kind in ("Generator", "Storage"):
            return Device(kind.lower())
        if kind == "int":
            return Plain(self._integer(name))
        if kind == "bool":
            return Plain(name != "pin_memory" and draw.random() < 0.5)
        if kind == "str":
            return Plain(draw.choice(WORDS))
        if kind in ("float", "number"):
            whole = kind == "number" and (not self.dtype.is_floating_point or draw.random() < 0.3)
            return Plain(
                draw.choice([0, 1, 2, -3, 7])
                if whole
                else draw.choice(NUMBERS[: 5 if self.careful else None])
            )
        return Plain(None)

    def _integer(self, name: str) -> Any:
        draw = self.draw
        if name == "dtype":
            return self._dtype()
        if name == "layout":
            return torch.strided
        if name == "memory_format":
            return draw.choice([torch.contiguous_format, torch.preserve_format, torch.channels_last])
        if not self.careful and draw.random() < 0.12:
            return draw.choice(HUGE)
        if name.startswith("dim") or name in ("axis", "start_dim", "end_dim"):
            dims = max(len(self.shape), 1)
            return draw.randrange(-dims, dims) if self.careful else draw.randrange(-5, 5)
        if name in ("size", "sizes", "output_size", "repeats") and self.shape and draw.random() < 0.6:
            return draw.choice(self.shape)
        return draw.choice([0, 1, 1, 2, 2, 3, 4] if self.careful else [-3, -1, 0, 1, 1, 2, 3, 5, 33])

    def _tensor(self, name: str) -> Tensor:
        draw, shape, dtype = self.draw, self.shape, self.dtype
        if INDICES.search(name):
            dtype = draw.choice([torch.int64, torch.int64, torch.int32]) if draw.random() < 0.85 else dtype
        elif "mask" in name or name == "condition":
            dtype = torch.bool if draw.random() < 0.8 else dtype
        kind = draw.random()
        if kind < 0.1:
            shape = tuple(1 if draw.random() < 0.5 else n for n in shape)
        elif kind < 0.2:
            shape = shape[1:]
        elif kind < 0.25:
            shape = ()
        elif kind < (0.3 if self.careful else 0.45):
            shape = tuple(draw.choice([0, 1, 2, 3, 5, 9]) for _ in range(draw.randrange(4)))
        if not self.careful and draw.random() < 0.1:
            dtype = self._dtype()
        integer = not dtype.is_floating_point and not dtype.is_complex
        values = draw.choice(["draws", "small integers"] if self.careful else VALUES)
        if integer and INDICES.search(name) and draw.random() < 0.7:
            data = tuple(draw.choice([0, 0, 1, 2]) for _ in range(torch.Size(shape).numel()))
            return Tensor(shape, dtype, data=data, place=self._place())
        return Tensor(shape, dtype, values, draw.choice(LAYOUTS), self._place(), draw.getrandbits(30))

    def _place(self) -> str:
        if self.careful or self.draw.random() < 0.93:
            return "here"
        return self.draw.choice(["other", "cpu", "meta"])


def draw_call(draw: random.Random, names: list[str]) -> Call:
    """One call of one of the operators `names`."""
    call = Drawer(draw, draw.choice(names)).call()
    if "_polynomial_" in call.name and any(map(_may_be_nan, [*call.positional, *call.named.values()])):
        call.compare = False  # the CPU's recurrences end at a NaN with a result that they have not written
    return call


def _may_be_nan(recipe: Any) -> bool:
    if isinstance(recipe, Tensor):
        return recipe.values == "not finite"
    return isinstance(recipe, Plain) and isinstance(recipe.value, float) and not math.isfinite(recipe.value)
