"""Data-parallel attention on a device that cannot launch Triton: the host's copy between local and global rows.

Each rank attends to its own requests, and all ranks share the expert layers. In between, SGLang
(`layers/dp_attention.py`) copies a rank's rows into the rows of all ranks and back with a Triton kernel, whatever the
device. The replacement uses torch operators. Like the kernel, it reads offset and count on the device.
"""

from __future__ import annotations

from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import argument, only_for
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["copy_rows", "register_hooks"]


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the replacement for out-of-tree devices without Triton."""
    if platform.is_out_of_tree() and not platform.capabilities.supports_triton:
        only_for(argument("enable_dp_attention"), host.copy_of_local_rows, _instead, HookType.AROUND)


def _instead(original: Any, dst: Any, src: Any, dim: int, offset: Any, sz: Any, offset_src: bool) -> None:
    copy_rows(dst, src, offset, sz, offset_src)


def copy_rows(target: Any, source: Any, offset: Any, count: Any, offset_in_source: bool) -> None:
    """Copy `count` rows: from row `offset` of the source to the first of the target (`offset_in_source`), or from the
    first of the source to row `offset` of the target. Rows outside the target are skipped.

    `target` and `source` are [rows, ...]; `offset` and `count` are numbers or one-element tensors on any device. The
    host never reads their values, so a captured graph uses those of its replay.
    """
    import torch  # a worker has it by now; the launcher does not

    at = torch.arange(target.shape[0], device=target.device)
    offset, count = _there(offset, target.device), _there(count, target.device)
    # Gather the source row of each target row: a scatter could write two rows to one place.
    row = at + offset if offset_in_source else at - offset
    number = at if offset_in_source else row
    copied = (number >= 0) & (number < count) & (row < source.shape[0])
    taken = source.index_select(0, row.clamp(0, source.shape[0] - 1))
    target.copy_(torch.where(copied.view(-1, *[1] * (target.dim() - 1)), taken, target))


def _there(value: Any, device: Any) -> Any:
    return value.to(device) if hasattr(value, "to") else value
