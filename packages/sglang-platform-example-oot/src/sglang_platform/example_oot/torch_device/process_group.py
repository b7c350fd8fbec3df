"""The process-group backend `example_oot`: `torch.distributed` for tensors on the device.

A vendor replaces the calls of `collective` by its communication library's; where that has a C++ backend for torch,
this file becomes its registration.
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from sglang_platform.example_oot.device_type import NAME

__all__ = ["DeviceProcessGroup", "register"]

_numbers = itertools.count()
_SUM = 0


def register() -> None:
    """Make `torch.distributed` know the backend; safe to call again."""
    if NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, DeviceProcessGroup, devices=[NAME])


class DeviceProcessGroup(dist.ProcessGroup):
    """Queues each collective on the current stream, which carries it out through a gloo group of the same ranks."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        # A group of its own name: the C++ side finds it by that, in the stream's thread.
        self._inner = dist.ProcessGroup(store, rank, size)
        gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self._inner._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        self._inner._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
        self._key = f"{NAME}:{next(_numbers)}"
        torch._C._distributed_c10d._register_process_group(self._key, self._inner)

    def getBackendName(self) -> str:
        return NAME

    def _queue(
        self, kind: str, outputs: list[torch.Tensor], inputs: list[torch.Tensor], argument: int = 0
    ) -> _Queued:
        torch.ops.sglang_example_oot.collective(kind, self._key, outputs, inputs, argument)
        return _Queued(outputs)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        operation = int(opts.reduceOp.op) if opts is not None else _SUM
        return self._queue("all_reduce", _contiguous(tensors), [], operation)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        return self._queue("broadcast", _contiguous(tensors), [], opts.rootRank if opts is not None else 0)

    def allgather(
        self, output_tensors: list[list[torch.Tensor]], input_tensors: list[torch.Tensor], opts: Any = None
    ) -> Any:
        return self._queue("all_gather", _contiguous(output_tensors[0]), [input_tensors[0].contiguous()])

    def gather(
        self, output_tensors: list[list[torch.Tensor]], input_tensors: list[torch.Tensor], opts: Any = None
    ) -> Any:
        here = self.rank() == (opts.rootRank if opts is not None else 0)
        parts = (
            output_tensors[0] if here else [torch.empty_like(input_tensors[0]) for _ in range(self.size())]
        )
        return self.allgather([parts], input_tensors)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        return self._queue("all_gather_single", _contiguous([output]), [input.contiguous()])

    def reduce_scatter(
        self, output_tensors: list[torch.Tensor], input_tensors: list[list[torch.Tensor]], opts: Any = None
    ) -> Any:
        return self.reduce_scatter_single(output_tensors[0], torch.stack(input_tensors[0]), opts)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Any:
        operation = int(opts.reduceOp.op) if opts is not None else _SUM
        return self._queue("reduce_scatter", _contiguous([output]), [input.contiguous()], operation)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Any,
        input_splits: Any,
        opts: Any = None,
    ) -> Any:
        if output_splits or input_splits:
            raise NotImplementedError(f"the backend {NAME} exchanges equal parts only")
        return self._queue("all_to_all_single", _contiguous([output]), [input.contiguous()])

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> Any:
        return self._queue("send", [], _contiguous(tensors), peer)

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> Any:
        return self._queue("recv", _contiguous(tensors), [], peer)

    def barrier(self, opts: Any = None) -> Any:
        torch.accelerator.synchronize()
        self._inner.barrier().wait()
        return _Queued([])

    # The names of torch 2.11.
    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single
    alltoall_base = all_to_all_single


class _Queued(dist.Work):
    """The handle of a queued collective: the stream orders it, so there is nothing to wait for."""

    def __init__(self, result: list[torch.Tensor]) -> None:
        super().__init__()
        self._future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        self._future.set_result(result)

    def wait(self, timeout: timedelta | None = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        return self._future


def _contiguous(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    if not all(tensor.is_contiguous() for tensor in tensors):
        raise ValueError(f"the backend {NAME} needs contiguous tensors")
    return tensors
