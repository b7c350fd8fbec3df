"""Level 2: the platform class is on the contract, in both base orders, and declares what can be understood."""

from __future__ import annotations

import types
from functools import partial
from typing import Any

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check, expect
from sglang_platform.conformance.checks.factories import answer_of
from sglang_platform.conformance.host_names import known_names, names_like
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.profiles import profiles
from sglang_platform.conformance.subject import PlatformRefused, Subject
from sglang_platform.core.contract import ATTENTION_FEATURES, KV_POOL_KINDS
from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.members import public_names
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.errors import ContractError
from sglang_platform.core.spelling import nearest

__all__: list[str] = []

IDENTITIES = ("CUDA", "ROCM", "CPU", "XPU", "MUSA", "NPU", "TPU", "MPS", "SAIL")
_CUDA_ALIKE = ("CUDA", "ROCM", "MUSA", "SAIL")


@check(
    level=Level.CONTRACT,
    needs="source",
    founds="platform",
    fix="correct what the message names; until then no check that needs the platform can run",
)
def platform_is_created(subject: Subject) -> None:
    """The plugin is asked, its platform class is imported, accepted by the contract, and instantiated."""
    try:
        _ = subject.platform
    except PlatformRefused as refused:
        cause = refused.__cause__
        what = getattr(cause, "what", None) or str(cause)
        why = getattr(cause, "why", None)
        raise CheckFailed(f"{what}\n{why}" if why else what, fix=getattr(cause, "fix", None)) from cause


@check(
    level=Level.CONTRACT,
    fix="set _enum to the member of PlatformEnum that the device is, and leave the is_*() methods alone: all of them "
    "read it",
)
def identity_agrees_with_enum(subject: Subject) -> None:
    """Each `is_*()` answers what `_enum` says, and `is_cuda_alike()` is true of CUDA, ROCM, MUSA and SAIL only."""
    platform = subject.platform
    member = getattr(platform._enum, "name", None)
    expect(
        member in (*IDENTITIES, "OOT"),
        f"_enum is {platform._enum!r}, which is no device",
        fix="set _enum = PlatformEnum.OOT in the device mixin of an out-of-tree device",
    )
    wanted = {f"is_{name.lower()}": name == member for name in IDENTITIES}
    wanted |= {"is_out_of_tree": member == "OOT", "is_cuda_alike": member in _CUDA_ALIKE}
    for name, answer in wanted.items():
        got = getattr(platform, name)()
        expect(
            got is answer,
            f"_enum is {member}, and {name}() answers {got!r}",
            case={"method": name, "wanted": answer},
        )


@check(level=Level.CONTRACT, fix="give both as class attributes of the device mixin")
def device_is_named(subject: Subject) -> None:
    """`device_name` is a name, `device_type` one that a `torch.device` can have, without an index."""
    import torch

    platform = subject.platform
    name, kind = platform.device_name, platform.device_type
    expect(isinstance(name, str) and name.strip(), f"device_name is {name!r}")
    expect(name != "unknown", "device_name is 'unknown', the contract's own default")
    expect(
        isinstance(kind, str) and kind and ":" not in kind, f"device_type is {kind!r}, not a bare device type"
    )
    try:
        torch.device(kind)
    except RuntimeError as error:
        raise CheckFailed(
            f"device_type is {kind!r}, and torch knows no such device: {str(error).splitlines()[0]}",
            fix="use torch's own name of it; a PrivateUse1 device must be renamed and registered before the platform "
            "is used: do it in activate() or where the platform class is imported",
        ) from error


@check(
    level=Level.CONTRACT,
    hosts=("none",),
    fix="in a mixin of your own, call super() for what you extend, and do not define the same name in two bases",
)
def both_base_orders_work(subject: Subject) -> None:
    """`(SRTPlatform, MyDevice)` and `(MyDevice, SRTPlatform)` give the same answers."""
    cls = next((klass for klass in type(subject.platform).__mro__ if _mixes(klass)), None)
    if cls is None:
        raise NotApplicable("the platform has no separate device mixin")
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    bases = tuple(reversed(cls.__bases__))
    try:
        other = types.new_class(cls.__name__, bases, {}, lambda namespace: namespace.update(body))
    except (TypeError, ContractError) as error:
        raise CheckFailed(
            f"with the bases in the order {_names(bases)} the class cannot be made: {error}"
        ) from error
    for name in sorted((public_names(SRTPlatform) | public_names(DeviceMixin)) - {"extra_public_names"}):
        here, there = _owner(cls, name), _owner(other, name)
        expect(
            here == there,
            f"{name} comes from {here} with the bases {_names(cls.__bases__)}, and from {there} with "
            f"{_names(bases)}",
            case={"name": name},
        )


def _mixes(cls: type) -> bool:
    platforms = [base for base in cls.__bases__ if issubclass(base, SRTPlatform)]
    mixins = [base for base in cls.__bases__ if issubclass(base, DeviceMixin) and base not in platforms]
    return bool(platforms) and bool(mixins)


def _owner(cls: type, name: str) -> str:
    owner = next((klass.__name__ for klass in cls.__mro__ if name in vars(klass)), "nowhere")
    return "the platform itself" if owner == cls.__name__ else owner


def _names(classes: tuple[type, ...]) -> str:
    return f"({', '.join(klass.__name__ for klass in classes)})"


@check(
    level=Level.CONTRACT,
    fix="use the contract's words: see sglang_platform.core.contract.capabilities and .types",
)
def declarations_are_understood(subject: Subject) -> None:
    """What is declared is in words that exist: dtypes, page sizes, kinds, attention features, kernels, profiles;
    `capabilities.fp8` and the 8-bit types of `supported_kv_dtypes` say the same."""
    import torch

    declared = subject.declares
    for name in declared.kv_dtypes:
        found = isinstance(getattr(torch, name, None), torch.dtype)
        expect(found, f"supported_kv_dtypes has {name!r}, which is no torch dtype", case={"dtype": name})
    for size in declared.page_sizes:
        expect(size >= 1, f"supported_page_sizes has {size}", case={"page_size": size})
    _among("supported_kv_kinds", declared.kv_kinds, KV_POOL_KINDS)
    _among("conformance_profiles", declared.profiles, profiles())
    _among("attention_features", sorted(declared.attention_features), ATTENTION_FEATURES)
    expect(
        not declared.kv_kinds or (declared.kv_dtypes and declared.page_sizes),
        f"supported_kv_kinds has {', '.join(declared.kv_kinds)}, but no dtype or no page size is declared for them",
        fix="declare supported_kv_dtypes and supported_page_sizes as well: what is not declared is not tested",
    )
    if subject.availability is not None:
        return  # the rest may go by the device
    stored = [name for name in declared.kv_dtypes if name.startswith("float8")]
    expect(
        not stored or not subject.knows_core or subject.platform.capabilities.fp8,
        f"supported_kv_dtypes has {', '.join(stored)}, and capabilities.fp8 is False",
        fix="say fp8=True in PlatformCapabilities where the device stores and multiplies it, or take the 8-bit types"
        " out of supported_kv_dtypes",
    )
    backends = subject.parts.attention_factory()
    expect(
        backends is None or declared.attention_features,
        "the platform brings an attention backend and declares no attention_features",
        fix="declare what the backend computes in attention_features: what is not declared is not tested",
    )


def _among(where: str, words: Any, known: Any) -> None:
    for word in words:
        meant = nearest(word, known)
        hint = f"; did you mean {meant!r}?" if meant else f"; the words are {', '.join(sorted(known))}"
        expect(
            word in known,
            f"{where} has {word!r}, which is no word of the contract{hint}",
            case={"word": word},
        )


@check(
    level=Level.CONTRACT,
    fix="raise ValueError for a method that is not in supported_quantization, and nothing for those that are",
)
def quantization_is_verified(subject: Subject) -> None:
    """What `supported_quantization` lists is accepted; where it lists something, an unknown method is refused, with
    ValueError; the answer is None."""
    platform, listed = subject.platform, subject.platform.supported_quantization
    expect(
        isinstance(listed, list | tuple) and all(isinstance(name, str) for name in listed),
        f"supported_quantization is {listed!r}, not a list of names",
    )
    for name in listed:
        known = known_names("quantization")
        expect(
            not known
            or name in known
            or answer_of(partial(platform.get_quantization_config, name), "") is not None,
            f"supported_quantization lists {name!r}, which SGLang does not have{names_like(name, known)}",
            case={"name": name},
            fix="write SGLang's name of the method, or answer its class from get_quantization_config()",
        )
    for name in (*listed, "no-such-method", "fp8"):
        asked = f"verify_quantization({name!r})"
        try:
            answer = platform.verify_quantization(name)
        except ValueError as error:
            expect(name not in listed, f"supported_quantization lists {name!r}, and {asked} raises {error}")
            continue
        except Exception as error:
            raise CheckFailed(
                f"{asked} raises {type(error).__name__}: {error}; a method is refused with ValueError"
            ) from error
        expect(answer is None, f"{asked} answers {answer!r}: a method that does not raise is served")
        known = not listed or name != "no-such-method"
        expect(known, f"supported_quantization lists methods, and {asked} raises nothing")
