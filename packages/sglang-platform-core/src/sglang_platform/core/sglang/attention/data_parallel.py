"""Data-parallel attention on a device that cannot launch Triton: the host's copy between local and global rows.

Each rank attends to the requests of its own, and all of them share the layers of experts. In between, SGLang
(`layers/dp_attention.py`) copies a rank's rows into the rows of all ranks and back with a Triton kernel, whatever the
device. Ours is made of torch's operators; like the kernel, it reads offset and count on the device.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import argument, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["copy_rows", "register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """For out-of-tree devices without Triton."""
    if platform.is_out_of_tree() and not platform.capabilities.supports_triton:
        only_for(argument("enable_dp_attention"), host.copy_of_local_rows, _instead, HookType.AROUND)


def _instead(original: Any, dst: Any, src: Any, dim: int, offset: Any, sz: Any, offset_src: bool) -> None:
    copy_rows(dst, src, offset, sz, offset_src)


def copy_rows(target: Any, source: Any, offset: Any, count: Any, offset_in_source: bool) -> None:
    """Copy `count` rows: from row `offset` of the source to the first of the target (`offset_in_source`), or from the
    first of the source to row `offset` of the target. Rows that the target does not have are left out.

    `target` and `source` are [rows, ...]; `offset` and `count` are numbers or tensors of one, on any device: nothing
    waits for their values, and a graph reads those of its replay.
    """
    import torch  # a worker has it by now; the launcher does not

    at = torch.arange(target.shape[0], device=target.device)
    offset, count = _there(offset, target.device), _there(count, target.device)
    # Seen from the target, so that no two rows go to one place: which row of the source stands in each of its rows.
    row = at + offset if offset_in_source else at - offset
    number = at if offset_in_source else row
    copied = (number >= 0) & (number < count) & (row < source.shape[0])
    taken = source.index_select(0, row.clamp(0, source.shape[0] - 1))
    target.copy_(torch.where(copied.view(-1, *[1] * (target.dim() - 1)), taken, target))


def _there(value: Any, device: Any) -> Any:
    return value.to(device) if hasattr(value, "to") else value
