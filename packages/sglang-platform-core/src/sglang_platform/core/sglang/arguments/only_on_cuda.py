"""Features that SGLang makes of CUDA's own means, with no place for another device: refused before a worker starts.

Asked of the arguments as the operator gave them, before the host settles any: its own checks know attention backends
by name, and would speak of those.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["FEATURES", "OnlyOnCuda", "register_hooks"]


class OnlyOnCuda(NamedTuple):
    """One feature: the argument, the place in SGLang (0.5.11 to 0.5.23), and what the operator can do."""

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
    """For out-of-tree devices that are not CUDA to torch."""
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
