"""Queries one plugin: loads its entry point, calls `activate()`, checks the answer, loads the class it names."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, NamedTuple

from sglang_platform.core.correction import place_of_function
from sglang_platform.core.discovery.contract_version import check_contract_version
from sglang_platform.core.discovery.damaged_install import missing_files_behind
from sglang_platform.core.discovery.host_first import HostWanted
from sglang_platform.core.discovery.log import log
from sglang_platform.core.discovery.refusals import plugin_failed
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.settings import LOCATION
from sglang_platform.core.errors import (
    NotAPlatformClass,
    PlatformError,
    PlatformUnavailable,
    PluginFailed,
    PluginOrigin,
    explain,
)
from sglang_platform.core.spelling import nearest, shown

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
            raise _names_a_class(record, function)
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
    if inspect.iscoroutine(answer):
        answer.close()  # else Python warns that nobody awaited it
    if not isinstance(answer, str) or not LOCATION.fullmatch(answer) or not {".", ":"} & set(answer):
        raise PluginFailed(
            f"platform plugin {record.name!r} answered with {_short(answer)}",
            plugin=record.origin,
            why='activate() must return "pkg.mod:Class", "pkg.mod.Class" or None',
            fix=f"correct {place_of_function(function) or record.value}: {_way_to_answer(answer)}",
        )
    return Answer(str.__str__(answer))


def _way_to_answer(answer: Any) -> str:
    if isinstance(answer, type):
        return f'return "{answer.__module__}:{answer.__qualname__}", the text'
    if inspect.iscoroutine(answer) or inspect.isasyncgen(answer):
        return "write `def`, not `async def`"
    if inspect.isgenerator(answer):
        return "write `return`, not `yield`"
    if answer is True or answer is False:
        return "return the text if the device is here, and None if not"
    return 'return the text "pkg.mod:Class", or None'


def _names_a_class(record: EntryPointRecord, cls: type) -> PluginFailed:
    # As in check_contract_version.
    from sglang_platform.core.contract.source import place_in_brackets

    return PluginFailed(
        f"the entry point {record.name!r} names the class {cls.__qualname__}, not a function",
        plugin=record.origin,
        why=f"SGLang calls what {record.group} names, and would take the object for the location of a class"
        + place_in_brackets(cls, ""),
        fix=f'write a function that returns "{cls.__module__}:{cls.__qualname__}", and name that in '
        f"{record.origin.distribution}'s entry point",
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
        raise _load_failure(record, error) from error
    if not callable(loaded):
        what = "a module" if isinstance(loaded, ModuleType) else _short(loaded)
        raise PluginFailed(
            f"the entry point {record.name!r} names {what}, not a function",
            plugin=record.origin,
            why=f"{record.name} = {record.value} in {record.group}",
            fix="name the function after a colon: `pkg.mod:function`",
        )
    return loaded  # type: ignore[no-any-return]


def _load_failure(record: EntryPointRecord, error: BaseException) -> PlatformError:
    what = f"plugin {record.name!r} could not be imported"
    if missing_files_behind(error, record.origin.distribution):
        return plugin_failed(what, record.origin, error)
    correct = f"correct the entry point in {record.origin.distribution} and install it again"
    if isinstance(error, ValueError) and record.value in error.args:
        return PluginFailed(
            what,
            plugin=record.origin,
            why=f"{record.value!r} is no object reference (`pkg.mod:function`)",
            fix=correct,
        )
    module_name, _, attribute = (one.strip() for one in record.value.partition("[")[0].partition(":"))
    if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
        return PluginFailed(
            what,
            plugin=record.origin,
            why=f"its entry point {record.name} = {record.value} points to the module {error.name!r}, which "
            "does not exist in this environment",
            fix=f"{correct}; an editable install needs its source folder to be where it was",
        )
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        module, name = error.obj, attribute.partition(".")[0]
        if module.__name__ == module_name and error.name == name:
            meant = nearest(name, vars(module))
            return PluginFailed(
                what,
                plugin=record.origin,
                why=f"its entry point {record.name} = {record.value} names {name!r}, which the module "
                f"{module_name!r} does not have" + (f"; did you mean {meant!r}?" if meant else ""),
                fix=correct,
            )
    return plugin_failed(what, record.origin, error, fix=f"correct the import of {module_name}")


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
        fix = f"correct {location}{_meant(error, location)}"
        is_its_own = isinstance(error, ModuleNotFoundError) and _is_within(location, error.name)
        if is_its_own and not missing_files_behind(error, origin.distribution):
            raise PluginFailed(what, plugin=origin, why=explain(error), fix=fix) from error
        raise plugin_failed(what, origin, error, fix=fix) from error
    allowed = bases()
    if not isinstance(found, type) or not issubclass(found, allowed):
        parents = ", ".join(
            f"{base.__module__}.{base.__qualname__}" for base in getattr(found, "__bases__", ())
        )
        wanted = " or ".join(f"{base.__module__}.{base.__qualname__}" for base in allowed)
        names = {base.__name__ for base in allowed}
        stand_in = next((one for one in getattr(found, "__mro__", ()) if one.__name__ in names), None)
        fix = f"derive the class from {allowed[0].__module__}.{allowed[0].__qualname__}"
        if stand_in is not None:
            parents += f" ({stand_in.__module__} has a stand-in of its own for {stand_in.__name__})"
            fix = "correct the import in whose place it is taken: `sglang-platform doctor --source-only` says which"
        raise NotAPlatformClass(
            f"plugin {origin.name!r} names {location}, which is not a platform class",
            plugin=origin,
            why=f"it is {_short(found)}"
            + (f" on {parents}" if parents else "")
            + f", not a subclass of {wanted}",
            fix=fix,
        )
    return found


def _is_within(location: str, module: str | None) -> bool:
    return f"{location.partition(':')[0]}.".startswith(f"{module}.")


def _meant(error: BaseException, location: str) -> str:
    """A "did you mean" hint if the error is about a name in `location`, else empty."""
    if not isinstance(error, AttributeError) or not isinstance(error.obj, ModuleType) or error.name is None:
        return ""
    lacks = [*error.obj.__name__.split("."), error.name]
    if re.split("[.:]", location)[: len(lacks)] != lacks:
        return ""
    meant = nearest(error.name, vars(error.obj))
    return f"; did you mean {meant!r}?" if meant else ""


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
