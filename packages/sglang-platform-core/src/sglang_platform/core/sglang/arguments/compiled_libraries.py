"""A launch on CUDA or ROCm without compiled libraries: defaults that need none, and refusals by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.arguments.server_args import asked_for
from sglang_platform.core.sglang.device.stubs import is_absent
from sglang_platform.core.sglang.registration import required
from sglang_platform.core.sglang.served_model import resolved
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["LIBRARIES", "choose_defaults", "register_hooks", "uses"]

_SWITCH = "SGLANG_USE_AITER"
_SKIPS_VERSION_CHECK = "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK"
_TRITON = {"attention_backend": "triton", "mm_attention_backend": "triton_attn"}
"""SGLang's backends in Triton, for models and for their images."""


class Library(NamedTuple):
    """The arguments of SGLang that need a library: values of those that end in `_backend` (alone or followed by `_`),
    quantisation methods, and switches."""

    distribution: str
    backends: tuple[str, ...]
    methods: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


LIBRARIES = {
    "sgl_kernel": Library(
        "sglang-kernel (sgl-kernel in older releases)",
        ("fa3", "flashmla", "cutlass", "dsa", "nsa", "dsv4", "compressed", "qsa", "minicpm"),
        ("gguf", "w4afp8"),
        ("enable_hierarchical_cache",),
    ),
    "flashinfer": Library(
        "flashinfer-python",
        ("flashinfer", "trtllm", "cutedsl_mla", "tokenspeed_mla", "llada2_cfg_flashinfer"),
    ),
    "deep_gemm": Library("sgl-deep-gemm (part of sgl-kernel in older releases)", ("deep_gemm",)),
    "aiter": Library("AITER", ("aiter",), ("quark_int4fp8_moe", "quark_mxfp4")),
}
"""By the name that is imported."""


def choose_defaults(server_args: Any, platform: Any) -> None:
    """Choose SGLang's Triton attention where the library of its own default is missing and the operator named none."""
    if not is_absent("aiter" if platform.is_rocm() else "sgl_kernel"):
        return
    os.environ.setdefault(_SKIPS_VERSION_CHECK, "1")
    for field, value in _TRITON.items():
        if hasattr(server_args, field) and not asked_for(server_args, field):
            setattr(server_args, field, value)


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the refusals, for a platform with the identity CUDA or ROCm."""
    if platform.is_out_of_tree():
        return

    def refuse(result: Any, server_args: Any, *args: Any, **kwargs: Any) -> None:
        needs = {field: library for field, library in uses(resolved(server_args)) if is_absent(library)}
        # Values that SGLang derived from the operator's come last.
        for field in sorted(needs, key=lambda name: not asked_for(server_args, name)):
            value = getattr(resolved(server_args), field)
            written = f"--{field.replace('_', '-')}" + ("" if value is True else f" {value}")
            raise _refusal(written, needs[field], platform)

    if platform.is_rocm():
        refuse_switch(platform)
    required(
        host.finished_arguments, refuse, HookType.AFTER,
        without="a launch that needs a missing library fails while it serves",
    )  # fmt: skip


def refuse_switch(platform: Any) -> None:
    """Raise LaunchRefused if the environment has SGLang use AITER, and AITER is missing."""
    if os.environ.get(_SWITCH, "").lower() in ("1", "true") and is_absent("aiter"):
        raise _refusal(f"{_SWITCH}={os.environ[_SWITCH]}", "aiter", platform)


def uses(arguments: Any) -> Iterator[tuple[str, str]]:
    """Each argument of the launch that needs a library, by its field, and the library."""
    fields = {name: getattr(arguments, name) for name in _fields(arguments)}
    for library, needs in LIBRARIES.items():
        for name, value in fields.items():
            backend = name.endswith("_backend") and isinstance(value, str) and _names(value, needs.backends)
            method = name == "quantization" and value in needs.methods
            if backend or method or (name in needs.switches and value):
                yield name, library


def _fields(arguments: Any) -> list[str]:
    from sglang.srt.server_args import ServerArgs

    return [name for name in ServerArgs.__annotations__ if hasattr(arguments, name)]


def _names(value: str, backends: tuple[str, ...]) -> bool:
    return any(value == backend or value.startswith(f"{backend}_") for backend in backends)


def _refusal(asked: str, library: str, platform: Any) -> LaunchRefused:
    return LaunchRefused(
        f"{asked} is not served: {library} is not installed, or does not load with this torch",
        plugin=getattr(platform, "_plugin_origin", None),
        why=f"SGLang's implementation calls {library}, for which neither {platform.device_name!r} nor torch has "
        "kernels",
        fix=f"leave it out (the attention in Triton is `--attention-backend triton`), or install "
        f"{LIBRARIES[library].distribution}",
    )
