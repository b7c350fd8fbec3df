"""Refuses features that SGLang implements for CUDA only, before a worker starts.

The operator's arguments are checked before SGLang resolves any: SGLang's own checks know attention backends by name,
and their errors would name those instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["FEATURES", "OnlyOnCuda", "register_hooks"]


class OnlyOnCuda(NamedTuple):
    """One feature: its argument, SGLang's file (0.5.11 to 0.5.23), the reason, and what the operator can do."""

    argument: str
    place: str
    why: str
    fix: str


FEATURES = (
    OnlyOnCuda(
        "enable_two_batch_overlap",
        "batch_overlap/operations_strategy.py",
        "it shares out the multiprocessors that torch.cuda.get_device_properties tells of, between the kernels of two "
        "halves of a batch",
        "leave it out: batches are then served whole, with the same tokens",
    ),
    OnlyOnCuda(
        "enable_single_batch_overlap",
        "batch_overlap/single_batch_overlap.py",
        "it shares out the multiprocessors that torch.cuda.get_device_properties tells of, between kernels that "
        "compute and kernels that send",
        "leave it out: the same tokens come without",
    ),
    OnlyOnCuda(
        "enable_deterministic_inference",
        "batch_invariant_ops/batch_invariant_ops.py, enable_batch_invariant_mode",
        "it puts Triton kernels of CUDA in the place of matrix products, sums and softmax, and knows the attention "
        "backends that go with them by name",
        "leave it out; ask one request at a time where a reply must not depend on others",
    ),
)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register for out-of-tree devices whose torch type is not `cuda`."""
    if platform.device_type == "cuda" or not platform.is_out_of_tree():
        return

    def refuse(server_args: Any, *args: Any, **kwargs: Any) -> None:
        for feature in FEATURES:
            if getattr(server_args, feature.argument):
                raise LaunchRefused(
                    f"--{feature.argument.replace('_', '-')} does not work on the platform {platform.device_name!r}",
                    plugin=getattr(platform, "_plugin_origin", None),
                    why=f"SGLang {host.version}, {feature.place}: {feature.why}",
                    fix=feature.fix,
                )

    required(
        host.finished_arguments, refuse, HookType.BEFORE,
        without="features that need CUDA are taken from the operator and fail later",
    )  # fmt: skip
