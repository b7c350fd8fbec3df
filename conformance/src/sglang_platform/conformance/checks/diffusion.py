"""The platform of the diffusion runtime: chosen by name, one device with the LLM runtime's, with usable answers."""

from __future__ import annotations

import enum
from functools import partial
from pkgutil import resolve_name
from typing import Any

import torch

from sglang_platform.conformance import diffusion_subject
from sglang_platform.conformance.check import Blocked, CheckFailed, NotRun, check, expect
from sglang_platform.conformance.diffusion_subject import diffusion
from sglang_platform.conformance.extras import missing
from sglang_platform.conformance.host.diffusion import (
    GenerationFailed,
    difference,
    generate,
    reference_picture,
)
from sglang_platform.conformance.host.diffusion_pipeline import make_pipeline
from sglang_platform.conformance.host.session import models_folder
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject
from sglang_platform.core.attention.diffusion import DiffusionAttention
from sglang_platform.core.contract.mm import HOST_DEFAULT
from sglang_platform.core.errors import PlatformError

_GIB = 1 << 30
_HEAD_SIZES = (32, 40, 64, 72, 80, 96, 128, 160, 192, 256)


_check = partial(check, level=Level.CONTRACT, needs="device", requires=[diffusion()], hosts=("none",))


@_check(
    needs="source", fix="correct what the message names; until then no check of the diffusion runtime can run"
)
def diffusion_platform_is_created(subject: Subject) -> None:
    """Named in `SGLANG_DIFFUSION_PLATFORM_OVERRIDE`, the plugin gives a platform class that is out of tree, under a
    name that the host has not reserved, and the class can be instantiated."""
    try:
        platform = diffusion_subject.platform(subject)
    except PlatformError as refused:
        what = f"{refused.what}\n{refused.why}" if refused.why else refused.what
        raise CheckFailed(what, fix=refused.fix) from refused
    for name in ("device_name", "device_type"):
        value = getattr(platform, name)
        expect(isinstance(value, str) and value.strip(), f"{name} is {value!r}, and the host wants a name")


def _platform(subject: Subject) -> Any:
    try:
        return diffusion_subject.platform(subject)
    except PlatformError as refused:
        raise Blocked(
            "the platform could not be created: see contract.diffusion_platform_is_created"
        ) from refused


@_check(fix="derive both platform classes from one device mixin, and override nothing of it in either")
def diffusion_device_is_the_llm_device(subject: Subject) -> None:
    """Both runtimes report one device: name, type, product, unique id, capability and total memory."""
    llm, picture = subject.platform, _platform(subject)
    asked = ("get_device_name", "get_device_uuid", "get_device_capability", "get_device_total_memory")
    for name in ("device_name", "device_type", *asked):
        one, other = (getattr(platform, name) for platform in (llm, picture))
        if name in asked:
            one, other = one(), other()
        expect(one == other, f"{name} is {one!r} in the LLM runtime and {other!r} in the diffusion runtime")


@_check(
    fix='return the type and the unit that the contract states for it; the dispatcher key is "PrivateUse1" for a device'
    ' of your own, or "CPU"'
)
def diffusion_answers_are_usable(subject: Subject) -> None:
    """Keys, backends and switches are of the kinds that the host can use, and free memory is in GiB."""
    platform = _platform(subject)
    key, behaviour = platform.get_torch_library_dispatch_key(), platform.get_dispatch_key_name()
    backend, known = platform.get_compile_backend(None), torch._dynamo.list_backends(exclude_tags=())
    options, module = platform.get_compile_options(torch.nn.Identity()), torch.nn.Linear(2, 2)
    local, optimized = platform.get_local_torch_device(), platform.optimize_vae(module)
    free, total = platform.get_available_gpu_memory(), platform.get_device_total_memory() / _GIB
    is_local = isinstance(local, torch.device) and local.type == platform.device_type
    answers = [
        ("get_torch_library_dispatch_key", key, _is_dispatch_key(key), "a dispatcher key of torch"),
        ("get_dispatch_key_name", behaviour, isinstance(behaviour, str) and behaviour.strip(), "a name"),
        ("get_compile_backend", backend, backend in known, f"one of {', '.join(sorted(known))}"),
        ("get_compile_options", options, options is None or isinstance(options, dict), "a dict or None"),
        ("get_local_torch_device", local, is_local, f"a device of type {platform.device_type!r}"),
        (
            "get_available_gpu_memory",
            free,
            isinstance(free, float) and 0 < free <= total,
            f"of {total:.1f} GiB",
        ),
        ("optimize_vae", optimized, isinstance(optimized, torch.nn.Module), "a module"),
    ]
    for name in (
        "is_amp_supported",
        "is_float64_supported",
        "device_shares_host_memory",
        "enable_dit_layerwise_offload_by_default",
        "supports_distributed_device_id",
    ):
        answer = getattr(platform, name)()
        answers.append((name, answer, isinstance(answer, bool), "a bool"))
    for name, answer, good, must in answers:
        expect(good, f"{name}() is {answer!r}, and must be {must}", case={"method": name})


def _is_dispatch_key(key: Any) -> bool:
    try:
        torch._C._dispatch_key_parse(key)
    except RuntimeError:
        return False
    return True


@_check(
    fix="return the name of one class for every head size and type that the device serves, and raise ValueError for "
    "a backend that it does not have"
)
def diffusion_attention_is_named(subject: Subject) -> None:
    """For every head size and type an attention class is named that can be imported or a ValueError says why not; a
    backend that the device does not have is refused rather than replaced."""
    platform = _platform(subject)
    served = 0
    for head_size in _HEAD_SIZES:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            case = {"head_size": head_size, "dtype": str(dtype).removeprefix("torch.")}
            try:
                place = platform.get_attn_backend_cls_str(None, head_size, dtype)
            except ValueError:
                continue
            expect(
                isinstance(place, str) and place, f"get_attn_backend_cls_str() answered {place!r}", case=case
            )
            if place == HOST_DEFAULT or place.startswith("sglang."):
                served += 1  # one of the host's own: `--host sglang` imports it
                continue
            try:
                found = resolve_name(place)
            except (ImportError, AttributeError, ValueError) as error:
                raise CheckFailed(f"{place} cannot be imported: {error}", case=case) from error
            expect(isinstance(found, type), f"{place} is {found!r}, no class", case=case)
            served += 1
    expect(served, "no head size and type is served without a selected backend")
    unheard_of = enum.Enum("Backend", ["AN_ATTENTION_THAT_NOBODY_HAS"]).AN_ATTENTION_THAT_NOBODY_HAS
    try:
        place = platform.get_attn_backend_cls_str(unheard_of, 64, torch.float32)
    except ValueError:
        return
    raise CheckFailed(
        f"asked for a backend that nobody has, get_attn_backend_cls_str() answered {place!r}",
        case={"selected_backend": unheard_of.name},
    )


@_check(
    level=Level.HOST,
    requires=[diffusion(), engine()],
    hosts=("sglang",),
    seconds=900,
    fix="compare the platform's attention with float64 first (kernels.diffusion_attention_agrees_with_float64); both "
    "pictures are kept where the message names them",
)
def diffusion_makes_the_same_picture(subject: Subject) -> None:
    """The diffusion runtime serves a small pipeline in float32 on the platform and on the host's own CPU platform: with
    one seed the pictures agree within 2 of 255, and where the platform names its own attention, none of the host's
    ran."""
    why = missing("diffusion")
    if why is not None:
        raise NotRun(why, cause="extra")
    folder = subject.scratch / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    pipeline = make_pipeline(models_folder() / "z_image")
    try:
        reference = reference_picture(pipeline)
    except GenerationFailed as failed:
        raise NotRun(f"the host's own CPU platform makes no picture here: {failed}") from failed
    try:
        picture = generate(subject.name, pipeline, folder / f"{subject.name}.png", llm_platform=subject.name)
    except GenerationFailed as failed:
        raise CheckFailed(f"no picture was made: {failed}") from failed
    workers = picture.counters.get("host.diffusion.worker", 0)
    expect(workers == 1, f"{workers} workers of the diffusion runtime were counted, and one was started")
    device = {name: picture.identity[name] for name in ("device_name", "device_type")}
    expect(
        device == picture.llm_device,
        f"in one process the diffusion runtime is on {device}, the LLM runtime on {picture.llm_device}",
        fix="name the platform in both variables, and derive both classes from one device mixin",
    )
    own = diffusion_subject.attention_class(subject)
    if own is not None and issubclass(own, DiffusionAttention):
        others = picture.counters.get("host.diffusion.attention_calls", 0)
        expect(others == 0, f"the host's own attention ran {others} times beside {own.__qualname__}")
    apart = difference(reference, picture.path)
    expect(apart <= 2, f"the pictures differ by up to {apart} of 255: {reference} and {picture.path}")
