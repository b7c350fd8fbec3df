"""Queries one plugin: loads its entry point, calls `activate()`, checks the answer, loads the class it names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.correction import place_of_function
from sglang_platform.core.discovery.contract_version import check_contract_version
from sglang_platform.core.discovery.host_first import HostWanted
from sglang_platform.core.discovery.log import log
from sglang_platform.core.discovery.refusals import plugin_failed
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import LOCATION
from sglang_platform.core.errors import (
    NotAPlatformClass,
    PlatformUnavailable,
    PluginFailed,
    PluginOrigin,
)
from sglang_platform.core.spelling import shown

__all__ = ["Answer", "ask", "asked_plugin", "load_class", "load_entry_point", "resolve_obj"]

_asked: ContextVar[PluginOrigin | None] = ContextVar("sglang_platform_asked", default=None)


class Answer(NamedTuple):
    """A plugin's answer: the location of its class, or None with the reason and a fix."""

    location: str | None
    reason: str | None = None
    fix: str | None = None


def asked_plugin() -> PluginOrigin | None:
    """The plugin that core is querying now in this thread, or None."""
    return _asked.get()


def ask(
    record: EntryPointRecord, before: Callable[[Callable[[], Any]], None] = lambda function: None
) -> Answer:
    """Import the plugin and call its `activate()`; before that, call `before` with it.

    Raises ContractVersionError before anything is imported, PluginFailed for an exception or an invalid answer.
    """
    check_contract_version(record)
    token = _asked.set(record.origin)
    try:
        function = load_entry_point(record)
        if isinstance(function, type):
            raise _no_function(record, function)
        before(function)
        log(__name__).debug("calling %s of %s", record.value, record.origin)  # its last line may be this one
        answer = _call(function, record)
    except PlatformUnavailable as declined:
        return Answer(None, str(declined.reason), declined.fix and str(declined.fix))
    finally:
        _asked.reset(token)
    if answer is None:
        why = "activate() returned None: not on this machine; it gives no reason, as PlatformUnavailable(reason) does"
        return Answer(None, why)
    if not isinstance(answer, str) or not LOCATION.fullmatch(answer) or not {".", ":"} & set(answer):
        raise PluginFailed(
            f"platform plugin {record.name!r} answered with {_short(answer)}",
            plugin=record.origin,
            why='activate() must return "pkg.mod:Class", "pkg.mod.Class" or None',
            fix=f"correct {place_of_function(function) or record.value}: "
            'return the text "pkg.mod:Class", or None',
        )
    return Answer(str.__str__(answer))


def _no_function(record: EntryPointRecord, loaded: Any) -> PluginFailed:
    return PluginFailed(
        f"the entry point {record.name!r} names {_short(loaded)}, not a function",
        plugin=record.origin,
        why=f"{record.name} = {record.value} in {record.group}",
        fix=f"correct the entry point of {record.origin.distribution}: name the function, as in `pkg.mod:function`",
    )


def _call(function: Callable[[], Any], record: EntryPointRecord) -> Any:
    try:
        return function()
    except (PlatformUnavailable, KeyboardInterrupt, HostWanted):
        raise
    except BaseException as error:
        # SystemExit and panics of native libraries are not an Exception; they would end the process unexplained.
        raise plugin_failed(
            f"platform plugin {record.name!r} failed in activate()",
            record.origin,
            error,
            fix=f"correct {record.value}; to decline, activate() returns None or raises PlatformUnavailable",
        ) from error


def load_entry_point(record: EntryPointRecord) -> Callable[[], Any]:
    """The function that an entry point names. Raises PluginFailed if it cannot be imported or is not callable."""
    from importlib_metadata import EntryPoint

    try:  # releases of importlib_metadata differ in whether making or loading it refuses an invalid reference
        entry_point = EntryPoint(name=record.name, value=record.value, group=record.group)
        loaded = entry_point.load()
    except (PlatformUnavailable, KeyboardInterrupt, HostWanted):
        raise
    except BaseException as error:
        raise plugin_failed(
            f"plugin {record.name!r} could not be imported",
            record.origin,
            error,
            fix=f"correct the entry point {record.name} = {record.value} of {record.origin.distribution}, or what it "
            "imports",
        ) from error
    if not callable(loaded):
        raise _no_function(record, loaded)
    return loaded  # type: ignore[no-any-return]


def load_class(location: str, origin: PluginOrigin, bases: Callable[[], tuple[type, ...]]) -> type:
    """The platform class at `location`. `bases` is called after the import, which may have loaded a host.

    Raises PluginFailed if it cannot be imported, NotAPlatformClass if it is not a subclass of one of `bases`.
    """
    what = f"the platform class {location} of plugin {origin.name!r} could not be loaded"
    try:
        found = resolve_obj(location)
    except (KeyboardInterrupt, HostWanted):
        raise
    except BaseException as error:
        raise plugin_failed(what, origin, error, fix=f"correct {location}") from error
    allowed = bases()
    if not isinstance(found, type) or not issubclass(found, allowed):
        parents = ", ".join(
            f"{base.__module__}.{base.__qualname__}" for base in getattr(found, "__bases__", ())
        )
        wanted = " or ".join(f"{base.__module__}.{base.__qualname__}" for base in allowed)
        raise NotAPlatformClass(
            f"plugin {origin.name!r} names {location}, which is not a platform class",
            plugin=origin,
            why=f"it is {_short(found)}"
            + (f" on {parents}" if parents else "")
            + f", not a subclass of {wanted}",
            fix=f"derive the class from {allowed[0].__module__}.{allowed[0].__qualname__}",
        )
    return found


def resolve_obj(location: str) -> Any:
    """The object at `pkg.mod:Class.attr` or `pkg.mod.Class.attr`, imported if needed.

    Raises ImportError and AttributeError unchanged: an import error inside a module is not masked.
    """
    module_name, colon, attributes = location.partition(":")
    if colon:
        found: Any = importlib.import_module(module_name)
        for name in attributes.split("."):
            found = getattr(found, name)
        return found
    first, *rest = location.split(".")
    found = importlib.import_module(first)
    for name in rest:
        submodule = isinstance(found, ModuleType) and not hasattr(found, name)
        found = _submodule(found, name) if submodule else getattr(found, name)
    return found


def _submodule(parent: ModuleType, name: str) -> ModuleType:
    full = f"{parent.__name__}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        raise AttributeError(
            f"module {parent.__name__!r} has no attribute or submodule {name!r}", name=name, obj=parent
        ) from error


def _short(value: Any) -> str:
    text = shown(value)
    return f"the {type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
