"""Checks the operator's arguments against the platform's declarations, before anything is loaded.

An empty declaration is not checked; the argument is left to SGLang. The same holds on a device that SGLang knows (CUDA,
ROCm), where SGLang's own parts serve what the platform's do not. A refused argument would otherwise crash a worker
later: in a kernel, during graph capture, or at the first request.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from numbers import Real
from typing import Any, NoReturn

from sglang_platform.core.contract.completeness import class_to_complete
from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.errors import LaunchRefused, explain
from sglang_platform.core.sglang.arguments.host_limits import overridden
from sglang_platform.core.spelling import nearest

__all__ = ["check_arguments", "check_default_attention", "check_default_lora", "check_memory", "refuse"]

# SGLang's names for a KV cache dtype and the torch types that store it. A device supports one of an 8-bit pair.
_STORED_AS = {
    "fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"),
    "fp8_e5m2": ("float8_e5m2", "float8_e5m2fnuz"),
    "bf16": ("bfloat16",),
}
# SGLang's aliases for a model dtype.
_MODEL_DTYPES = {"half": "float16", "float": "float32"}

_BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")

# SGLang's attention backends in plain torch, which run on any device.
_ON_ANY_DEVICE = ("torch_native",)


def refuse(argument: str, value: Any, platform: Any, declares: str, fix: str) -> NoReturn:
    """Stop the launch: `platform` does not support `value` for `argument` (a field of SGLang's server arguments).

    `declares` says what the platform supports instead, `fix` what the operator can do. Raises LaunchRefused.
    """
    name = platform.device_name
    raise LaunchRefused(
        f"--{argument.replace('_', '-')} {value} is not served on the platform {name!r}",
        plugin=getattr(platform, "_plugin_origin", None),
        why=f"the platform {name!r} {declares}",
        fix=fix,
    )


def check_memory(platform: Any) -> None:
    """Raise LaunchRefused unless the platform answers the memory of its device, as SGLang asks it at every launch."""
    why = None
    try:
        total = platform.get_device_total_memory()
    except Exception as error:  # noqa: BLE001 - any error of a vendor's code would end the launch
        why = explain(error)
    else:
        if not isinstance(total, Real) or total <= 0:
            why = f"it answers {total!r}"
    if why is not None:
        raise LaunchRefused(
            f"the platform {platform.device_name!r} does not answer get_device_total_memory() with bytes",
            plugin=getattr(platform, "_plugin_origin", None),
            why=why,
            fix=f"return an int above 0, before any backend is initialised, from get_device_total_memory() of "
            f"{class_to_complete(type(platform), DeviceMixin)}",
        )


def check_default_attention(platform: Any) -> None:
    """Raise LaunchRefused if the platform's default is no attention backend, which would end a worker.

    A platform with an `init_backend()` of its own may register the name there, in the workers.
    """
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES as known

    name = platform.get_default_attention_backend()
    registry = sys.modules.get("sglang.srt.layers.attention.attention_registry")
    names = {*known, *platform.get_attention_backends(), *getattr(registry, "ATTENTION_BACKENDS", ())}
    why, correct = "neither get_attention_backends() nor SGLang has an attention backend of that name", None
    if name == "triton" and not platform.capabilities.supports_triton:
        why, correct = "the platform does not declare supports_triton=True", "declare it in capabilities"
    elif name in names or overridden(type(platform), "init_backend"):
        return
    correct = correct or f"return {nearest(str(name), names) or 'torch_native'!r}"
    fix = f"{correct}, or leave the method out: the default is the platform's own, or core's in plain torch"
    _refuse_default(platform, "get_default_attention_backend", name, why, fix)


def check_default_lora(arguments: Any, platform: Any) -> None:
    """Raise LaunchRefused if `arguments`, which ask for LoRA, have the platform's default and it is no LoRA backend;
    `init_backend()` as for attention."""
    from sglang.srt.lora.backend.lora_registry import LORA_SUPPORTED_BACKENDS as known

    name = platform.get_default_lora_backend()
    is_used = name is not None and name == arguments.lora_backend
    if is_used and name not in known and not overridden(type(platform), "init_backend"):
        fix = f"return {nearest(name, known) or 'torch_native'!r}, or leave the method out"
        why = "SGLang has no LoRA backend of that name"
        _refuse_default(platform, "get_default_lora_backend", name, why, fix)


def _refuse_default(platform: Any, method: str, name: Any, why: str, fix: str) -> NoReturn:
    raise LaunchRefused(
        f"{method}() of the platform {platform.device_name!r} answers {name!r}",
        plugin=getattr(platform, "_plugin_origin", None),
        why=why,
        fix=f"in {class_to_complete(type(platform))}: {fix}",
    )


def check_arguments(arguments: Any, platform: Any, asked_attention: Collection[tuple[str, str]] = ()) -> None:
    """Check the resolved `arguments` (SGLang's record, or its resolved view) against the platform's declarations.

    `asked_attention` holds (field, name) of the attention backends that the operator gave; SGLang's own choices are not
    checked. Raises LaunchRefused for the first value that is not declared.
    """
    if platform.is_out_of_tree():  # elsewhere SGLang's own parts serve what the platform's do not
        _check_kv_dtype(arguments, platform)
        _check_page_size(arguments, platform)
        _check_quantization(arguments, platform)
    _check_attention(platform, asked_attention)
    _check_parallel_size(arguments, platform)
    _check_process_groups(arguments, platform)


def _check_kv_dtype(arguments: Any, platform: Any) -> None:
    declared = platform.supported_kv_dtypes
    if not declared:
        return
    asked = str(arguments.kv_cache_dtype)
    if asked == "auto":
        _check_model_dtype(arguments, platform)
        return
    if not any(name in declared for name in _STORED_AS.get(asked, (asked,))):
        choices = [word for word in ("auto", *_words_of(declared)) if word != asked]
        refuse(
            "kv_cache_dtype",
            asked,
            platform,
            f"stores keys and values as {_listed(declared)} (supported_kv_dtypes)",
            f"leave out --kv-cache-dtype, or give one of {_listed(choices)}",
        )


def _check_model_dtype(arguments: Any, platform: Any) -> None:
    """Check the model's dtype, which `auto` selects for the cache. If it is `auto` too, the pool checks it later."""
    asked = str(arguments.dtype)
    declared = platform.supported_kv_dtypes
    if asked == "auto" or _MODEL_DTYPES.get(asked, asked) in declared:
        return
    served = [name for name in ("bfloat16", "float16", "float32") if name in declared]
    refuse(
        "dtype",
        asked,
        platform,
        f"stores keys and values as {_listed(declared)} (supported_kv_dtypes), and --kv-cache-dtype auto is the "
        "model's type",
        f"give --dtype {' or '.join(served)}" if served else "give --kv-cache-dtype one of these",
    )


def _check_page_size(arguments: Any, platform: Any) -> None:
    size, declared = arguments.page_size, platform.supported_page_sizes
    if not declared or size is None or size in declared:
        return
    listed = _listed(sorted(declared)) if len(declared) <= 16 else f"{min(declared)} to {max(declared)}"
    refuse(
        "page_size",
        size,
        platform,
        f"works with pages of {listed} tokens (supported_page_sizes)",
        f"give --page-size {min(declared, key=lambda known: abs(known - size))}",
    )


def _check_quantization(arguments: Any, platform: Any) -> None:
    method, declared = arguments.quantization, platform.supported_quantization
    if not declared or method in (None, "", "unquant") or method in declared:
        return
    refuse(
        "quantization",
        method,
        platform,
        f"runs the methods {_listed(declared)} (supported_quantization)",
        f"leave out --quantization, or give one of {_listed(declared)} and a checkpoint of it",
    )


def _check_attention(platform: Any, asked: Collection[tuple[str, str]]) -> None:
    """Refuse SGLang's own backends on an out-of-tree device, unless they are plain torch, or Triton if supported."""
    own = tuple(platform.get_attention_backends())
    if not own or not platform.is_out_of_tree():
        return
    served = (*own, *_ON_ANY_DEVICE, *(("triton",) if platform.capabilities.supports_triton else ()))
    others = served[len(own) :]
    for field, name in asked:
        if name not in served:
            refuse(
                field,
                name,
                platform,
                f"brings {_listed(own)} (get_attention_backends), and of SGLang's own runs {_listed(others)}",
                f"leave out --{field.replace('_', '-')}, or give one of {_listed(served)}",
            )


def _check_parallel_size(arguments: Any, platform: Any) -> None:
    """Refuse more ranks per node than devices: a rank without a device would crash in the device's runtime."""
    present = _device_count(platform.device_type)
    if not present or arguments.use_ray:
        return
    replicas = 1 if arguments.enable_dp_attention else arguments.dp_size
    ranks = -(-arguments.tp_size * arguments.pp_size // arguments.nnodes) * replicas
    last = arguments.base_gpu_id + (ranks - 1) * arguments.gpu_id_step
    if last < present:
        return
    field = max(("tp_size", "pp_size", "dp_size"), key=lambda name: getattr(arguments, name))
    refuse(
        field,
        getattr(arguments, field),
        platform,
        f"has {present} device(s) of type {platform.device_type!r} here, and this launch needs device {last}",
        "make --tp-size x --pp-size x --dp-size fit the devices of a node, or add nodes (--nnodes)",
    )


def _check_process_groups(arguments: Any, platform: Any) -> None:
    """Refuse several ranks whose process groups cannot carry tensors of the device: the first collective would fail."""
    field = next((name for name in ("tp_size", "pp_size") if getattr(arguments, name) > 1), None)
    if field is None or not platform.is_out_of_tree() or platform.get_communicator_class() is not None:
        return
    import torch  # here for the reason told in `_device_count`

    backend = platform.get_torch_distributed_backend_str()
    carries = torch.distributed.Backend.backend_capability.get(backend, [platform.device_type])
    if platform.device_type in carries:
        return
    refuse(
        field,
        getattr(arguments, field),
        platform,
        f"names process groups of {backend!r} (get_torch_distributed_backend_str), which carry tensors of "
        f"{_listed(carries)} alone",
        f"leave out --{field.replace('_', '-')}, or return from get_torch_distributed_backend_str() of "
        f"{class_to_complete(type(platform), DeviceMixin)} the backend that its torch plugin registers",
    )


def _device_count(device_type: str) -> int:
    """The number of devices that torch sees; 0 if unknown, and for `cpu`, which serves any number of ranks."""
    # Imported here: importing torch takes a second, and every process that loads plugins imports this module.
    import torch

    if device_type == "cpu":
        return 0
    try:
        module = torch.get_device_module(device_type)
    except RuntimeError:  # the device's library registers with torch only in the workers
        return 0
    count = getattr(module, "device_count", None)
    return int(count()) if callable(count) else 0


def _words_of(declared: Collection[str]) -> Iterator[str]:
    words = {"bfloat16": ("bfloat16",), **_STORED_AS}
    for word, stored in words.items():
        if word != "bf16" and any(name in declared for name in stored):
            yield word


def _listed(names: Collection[Any]) -> str:
    return ", ".join(str(name) for name in names) or "nothing"
