"""Checks of the platform class that a running SGLang selected, and of the classes that its factories return.

Classes that a vendor derived from SGLang's own are examined live, in a process that has imported SGLang. That covers
what the source does not show: conditional classes, star imports, mixins of a library, names set later.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.contract.drift import older_names
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.signatures import bound_signature, without_annotations
from sglang_platform.core.correction import correction, place_in_plugin
from sglang_platform.core.doctor.finding import Finding
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.spelling import nearest
from sglang_platform.devtools.doctor.host_overrides import examine_host_class
from sglang_platform.devtools.doctor.host_source import HostSource, installed_host
from sglang_platform.devtools.doctor.part_class import (
    examine_missing,
    examine_part_class,
    without_host_base,
)
from sglang_platform.devtools.doctor.read_class import class_of_process, is_hosts, is_vendors
from sglang_platform.devtools.written import is_unwritten, place_of

__all__ = ["LiveFindings", "examine_live_platform"]

_FACTORIES = (
    "get_kv_pool_cls",
    "get_paged_allocator_cls",
    "get_graph_runner_cls",
    "get_full_graph_backend_cls",
    "get_piecewise_backend_cls",
    "get_quantization_config",
)
_POOLS, _ALLOCATORS = "sglang.srt.mem_cache.memory_pool", "sglang.srt.mem_cache.allocator"
_ASKED_AT_EVERY_START = {
    "get_current_memory_usage",
    "get_default_attention_backend",
    "get_device",
    "get_device_total_memory",
}
"""Methods that SGLang calls on an out-of-tree platform at every launch; the others serve single features."""


class LiveFindings(NamedTuple):
    """`examined`: the examined classes, as ``module:qualified name``."""

    findings: list[Finding]
    examined: list[str]


def examine_live_platform(platform: Any, origin: PluginOrigin) -> LiveFindings:
    """The findings on a platform derived from SGLang's class alone; none for one on this project's contract."""
    cls = type(platform)
    host = installed_host()
    if isinstance(platform, DeviceMixin) or host is None or is_hosts(cls):
        return LiveFindings([], [])
    findings = [*examine_host_class(class_of_process(cls), host), *_identity(platform, host)]
    findings += [*_unanswered(cls, host), *_attention_backend(platform)]
    examined = [cls]
    for call, answer, in_place_of in _answers(platform):
        if isinstance(answer, Finding):
            findings.append(answer)
        elif answer is not None and not isinstance(answer, type):
            what = f"{cls.__qualname__}.{call} answers {answer!r:.80}, and SGLang wants a class or None"
            fix = "return the class itself: SGLang makes the object, and imports nothing by name"
            where = _where(cls, call)
            findings.append(Finding("factory-answer", "problem", what, None, "it is no class", fix, where))
        elif answer is not None and not is_hosts(answer) and answer not in examined:
            examined.append(answer)
            if not any(map(is_hosts, answer.__mro__)):
                findings.append(without_host_base(answer, call, host))
                continue
            read = class_of_process(answer)
            findings += examine_part_class(read, host, made_by_host=True, in_place_of=in_place_of)
            if in_place_of is not None:
                findings += examine_missing(answer, in_place_of, host)
    bases = [base for one in examined for base in one.__mro__ if is_vendors(base)]
    findings = [one._replace(plugin=origin) for one in findings]
    return LiveFindings(findings, [f"{one.__module__}:{one.__qualname__}" for one in bases])


def _identity(platform: Any, host: HostSource) -> Iterator[Finding]:
    """A problem if `_enum` is unset: SGLang recognises an out-of-tree platform by it alone."""
    cls = type(platform)
    if platform._enum.name != "UNSPECIFIED":
        return
    what = f"{cls.__qualname__} does not say `_enum = PlatformEnum.OOT`"
    why = f"{host} asks is_out_of_tree() before it asks a platform for anything, and here that is False"
    fix = f"write `_enum = PlatformEnum.OOT` in {cls.__qualname__}"
    yield Finding("identity-missing", "problem", what, None, why, fix, place_of(cls))


def _unanswered(cls: type, host: HostSource) -> Iterator[Finding]:
    """The findings on SGLang's calls that raise the inherited NotImplementedError."""
    features = []
    for name in dir(cls):
        owner = next((k for k in cls.__mro__ if name in vars(k)), None)
        if owner is None or not is_hosts(owner) or not is_unwritten(vars(owner)[name]):
            continue
        call = next(iter(host.calls(name, "platform")), None)
        if call is None:
            continue
        if name not in _ASKED_AT_EVERY_START:
            features.append(str(call))
            continue
        signature = bound_signature(vars(owner)[name], owner) or inspect.Signature()
        yield Finding(
            "override-missing",
            "problem",
            f"{cls.__qualname__} does not override {name}; {host} calls it with {call.text}",
            None,
            f"{owner.__name__}.{name} raises NotImplementedError; the call is at {call.place}",
            f"write {name}{without_annotations(signature)} in {cls.__qualname__}",
            place_of(cls),
        )
    if features:
        what = f"{cls.__qualname__} leaves {len(features)} calls of {host} to a NotImplementedError"
        why = f"single features make them: {'; '.join(features)}"
        yield Finding(
            "override-missing", "note", what, None, why, "override them before the features", place_of(cls)
        )


def _attention_backend(platform: Any) -> Iterator[Finding]:
    """A problem if the default attention backend is not registered."""
    registry = getattr(
        sys.modules.get("sglang.srt.layers.attention.attention_registry"), "ATTENTION_BACKENDS", {}
    )
    name, cls = "get_default_attention_backend", type(platform)
    if not registry or is_hosts(next(k for k in cls.__mro__ if name in vars(k))):
        return
    try:
        answer = platform.get_default_attention_backend()
    except Exception:  # noqa: BLE001 - what it raises without a server's arguments says nothing
        return
    if answer in registry:
        return
    meant = nearest(str(answer), registry)
    what = (
        f"{cls.__qualname__}.{name}() answers {answer!r}, and no attention backend of that name is registered"
    )
    why = f"after all plugins were loaded there are {', '.join(sorted(registry))}"
    fix = f"answer {meant!r}" if meant else f"register {answer!r} in a general plugin, or answer one of these"
    yield Finding("factory-answer", "problem", what, None, why, fix, _where(cls, name))


def _answers(platform: Any) -> Iterator[tuple[str, Any, type | None]]:
    """Each overridden factory as (call, result, SGLang's own class for that part); the result is a Finding if it
    raises."""
    for name in _FACTORIES:
        factory = getattr(platform, name, None)
        if factory is None or _own_name(type(platform), name) is None:
            continue
        for keywords, of_host in _calls(name, platform):
            text = f"{name}({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
            try:
                inspect.signature(factory).bind(**keywords)
            except TypeError:
                continue  # reported as an override that rejects SGLang's call
            try:
                answer = factory(**keywords)
                yield text, answer, _of_host(*of_host) if of_host else None
            except NotImplementedError:
                continue  # a refusal, which SGLang passes on to the user
            except Exception as error:  # noqa: BLE001 - whatever a vendor's factory raises is the finding
                what = f"{type(platform).__qualname__}.{text} raises {type(error).__name__}"
                cls = type(platform)
                place = place_in_plugin(error, cls)
                why = f"{error} (at {place})" if place else str(error)
                fix = correction(error, cls) or f"correct what raises in {text}"
                found = Finding(
                    "factory-answer", "problem", what, None, why, fix, _where(type(platform), text)
                )
                yield text, found, None


def _calls(name: str, platform: Any) -> list[tuple[dict[str, str], tuple[str, str] | None]]:
    """The keywords of each call of a factory, and the module and name of SGLang's own class for that part."""
    if name == "get_kv_pool_cls":
        kinds = get_args(getattr(sys.modules.get("sglang.srt.platforms.interface"), "KVPoolKind", None))
        return [({"kind": one}, (_POOLS, KINDS[one].base.partition(":")[2])) for one in kinds if one in KINDS]
    if name == "get_quantization_config":
        known = platform.supported_quantization
        return [({"quantization": one}, None) for one in (known if isinstance(known, list | tuple) else ())]
    if name == "get_paged_allocator_cls":
        return [({}, (_ALLOCATORS, "PagedTokenToKVPoolAllocator"))]
    return [({}, None)]


def _of_host(module: str, name: str) -> type | None:
    """A class of SGLang if its module is loaded, as it is once a vendor has subclassed one of its classes."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None


def _own_name(cls: type, name: str) -> str | None:
    """The name of the vendor's method behind a factory: this one, or an older name that SGLang falls back to."""
    for one in (name, *(row.old for row in older_names() if row.member == name)):
        owner = next((k for k in cls.__mro__ if one in vars(k)), None)
        if owner is not None and not is_hosts(owner):
            return one
    return None


def _where(cls: type, call: str) -> str | None:
    name = _own_name(cls, call.partition("(")[0]) or call
    return place_of(next(k for k in cls.__mro__ if name in vars(k)), name)
