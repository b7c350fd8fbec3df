"""What a platform can do, declared before anything is built."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sglang_platform.core.errors import ContractError

__all__ = ["PlatformCapabilities"]


@dataclass(frozen=True, kw_only=True)
class PlatformCapabilities:
    """Answers the host reads before it constructs anything, to take a code path the platform can serve.

    Every field is False unless the platform says otherwise, so forgetting one costs speed, never correctness.
    Fields and names are those of SGLang 0.5.22 and later, except `fp8`, which is core's own.

    supports_triton: Triton kernels can be launched on the device. Without it the host allocates and writes
        its token tables with torch operators.
    graph_capture: decode steps can be captured and replayed. A platform that says so has a graph runner
        (`SRTPlatform.get_graph_runner_cls`); an out-of-tree one that answers None there is refused by the
        host.
    piecewise_graph: prefill can be compiled piecewise (`SRTPlatform.get_piecewise_backend_cls`, same rule; hosts up
        to 0.5.21).
    hicache_device_kernels: the host's kernels that move KV pages between host and device memory run here.
    supports_pynccl: model-parallel groups make a PyNccl communicator unless the caller decides. The host asks
        out-of-tree platforms only, from 0.5.23.
    fp8: matrix multiplication and KV storage in an 8-bit float type. No host reads it; core and the
        conformance suite do.
    """

    supports_triton: bool = False
    graph_capture: bool = False
    piecewise_graph: bool = False
    hicache_device_kernels: bool = False
    supports_pynccl: bool = False
    fp8: bool = False

    def __post_init__(self) -> None:
        wrong = [f.name for f in fields(self) if not isinstance(getattr(self, f.name), bool)]
        if wrong:
            raise ContractError(
                "PlatformCapabilities holds an answer that is neither True nor False",
                why="\n".join(f"{name}={getattr(self, name)!r}" for name in wrong),
                fix="make `capabilities` a property of the platform where they depend on the device",
            )
