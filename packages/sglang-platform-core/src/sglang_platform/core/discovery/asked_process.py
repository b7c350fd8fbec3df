"""What the process that `apart` watches does: it decides as a launch does, and tells each step before it takes it.

Messages are plain JSON: an object of a plugin's class must not reach the process that watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from sglang_platform.core import errors
from sglang_platform.core.correction import place_of_function
from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.asking import Answer, ask
from sglang_platform.core.discovery.host_first import HostWanted
from sglang_platform.core.discovery.kind import KINDS, PlatformKind
from sglang_platform.core.discovery.lazy import lazy_platform
from sglang_platform.core.discovery.own_process import Tell
from sglang_platform.core.discovery.refusals import plugin_failed
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.discovery.trace import describe_error, restored
from sglang_platform.core.errors import PlatformError, PluginOrigin

__all__ = ["decide"]


def decide(asked: Mapping[str, Any], tell: Tell) -> None:
    """Choose, decide and build as far as `asked["depth"]`, and tell the result.

    asked: `group` of the platforms; `known`, what plugins answered, or how they failed, in an earlier process, by their
    place in the scan; `limits` of the steps in seconds.
    """
    (kind,) = [one for one in KINDS if one.group == asked["group"]]
    process = lazy_platform(kind)[1]
    process.ask = _Asking(kind, asked, tell)
    result: dict[str, Any] = {"origin": None, "location": None, "error": None, "platform": None}
    try:
        try:
            choice = process.choose()
            result.update(origin=choice.origin, location=choice.location, may_fall_back=choice.may_fall_back)
            tell({"chosen": {**result, "trace": choice.trace.as_dict()}})
            if asked["depth"] != "choice":
                result["platform"] = _platform(kind, choice.origin, asked, tell)
        except PlatformError as error:
            result["error"] = describe_error(error)
    except BaseException as error:  # noqa: BLE001  (of a plugin: it would end a launch)
        tell({"stopped": f"raised {errors.explain(error)}"})
        return
    trace = process.trace
    tell({"result": {**result, "trace": trace.as_dict() if trace else None}})


class _Asking:
    """Asks one plugin: tells each step, and repeats what is known."""

    def __init__(self, kind: PlatformKind, asked: Mapping[str, Any], tell: Tell) -> None:
        self.records, self.tell, self.limits = scan.records(kind.group), tell, asked["limits"]
        self.known = {int(key): answer for key, answer in asked["known"].items()}

    def __call__(self, record: EntryPointRecord) -> Answer:
        key = self.records.index(record)
        if key in self.known:
            error = restored(self.known[key].get("error"))
            if error is not None:
                raise error
            return Answer(*self.known[key]["answer"])
        self._stage(key, record, f"the import of {record.value.partition(':')[0]}", "import")
        started = time.perf_counter()
        told: dict[str, Any] = {"asked": key}
        try:
            answer = ask(record, lambda function: self._stage(key, record, _named(function), "activate"))
            told["answer"] = answer
            return answer
        except PlatformError as error:
            told["error"] = describe_error(error)
            raise
        except HostWanted:
            told.clear()
            self._stage(key, record, "the import of SGLang, which the plugin imports", "import")
            raise
        finally:
            if len(told) > 1:
                self.tell({**told, "seconds": time.perf_counter() - started})

    def _stage(self, key: int, record: EntryPointRecord, doing: str, step: str) -> None:
        module = record.value.partition(":")[0]
        stage = {"key": key, "plugin": record.origin, "doing": doing, "module": module}
        self.tell({"stage": stage}, self.limits[step])


def _named(function: Callable[[], Any]) -> str:
    place = place_of_function(function)
    return f"{getattr(function, '__name__', 'activate')}()" + (f" at {place}" if place else "")


def _platform(
    kind: PlatformKind, origin: PluginOrigin | None, asked: Mapping[str, Any], tell: Tell
) -> dict[str, Any]:
    """The platform in plain values. Raises PlatformError where a launch would be refused."""
    # The contract takes longer to import than all of discovery.
    from sglang_platform.core.contract.completeness import incomplete

    platform, process = lazy_platform(kind)
    location = process.choose().location or ""

    def stage(doing: str, step: str) -> None:
        module = location.partition(":")[0]
        told = {"key": None, "plugin": origin, "doing": doing, "module": module}
        tell({"stage": told}, asked["limits"][step])

    stage(f"the import of {location}", "import")
    started = time.perf_counter()
    decision = process.decide()
    cls = decision.platform_class or kind.core_base()
    seconds = {"import of its class": time.perf_counter() - started}
    described: dict[str, Any] = {"plugin": decision.origin, "seconds": seconds}
    if asked["depth"] == "object":
        stage(f"{location}()", "object")
        started = time.perf_counter()
        try:
            described |= {"device_name": str(platform.device_name), "device_type": str(platform.device_type)}
        except PlatformError:
            raise
        except Exception as error:
            if origin is None:
                raise
            raise plugin_failed(
                f"the platform {location} does not say which device it is",
                origin,
                error,
                fix=f"correct {location}",
            ) from error
        cls = type(platform)
        decision = process.decide()
        missing = decision.platform_class and incomplete(decision.platform_class, platform, decision.origin)
        if missing:
            raise missing
        described["plugin"] = decision.origin
        seconds["making of its object"] = time.perf_counter() - started
    described["class"] = f"{cls.__module__}.{cls.__qualname__}"
    return described
