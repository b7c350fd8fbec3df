"""The platform class that a running SGLang ended on, and the classes that its factories answer.

Where their vendor wrote them on SGLang's own they are examined as objects, in a process that has imported SGLang.

What the source does not show (classes made under a condition, star imports, mixins of a library, names set later) has
happened there.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, get_args

from sglang_platform.core.contract.device import DeviceMixin
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.inspect.doctor.class_shape import ShapeBuilder
from sglang_platform.core.inspect.doctor.finding import Finding
from sglang_platform.core.inspect.doctor.host_overrides import examine_host_class
from sglang_platform.core.inspect.doctor.host_source import installed_host, is_hosts
from sglang_platform.core.inspect.doctor.part_class import examine_part_class
from sglang_platform.core.source.environment import Environment
from sglang_platform.core.source.lookup import Lookup

__all__ = ["examine_live_platform"]

_FACTORIES = (
    "get_kv_pool_cls",
    "get_paged_allocator_cls",
    "get_graph_runner_cls",
    "get_piecewise_backend_cls",
)


def examine_live_platform(platform: Any, origin: PluginOrigin) -> Iterator[Finding]:
    """The findings on a platform that stands on SGLang's class alone; nothing for one on this project's contract."""
    cls = type(platform)
    host = installed_host(ShapeBuilder(Lookup(Environment())))
    if isinstance(platform, DeviceMixin) or host is None or is_hosts(cls):
        return
    yield from examine_host_class(cls, origin, host)
    for call, answer in _answers(platform):
        if isinstance(answer, Finding):
            yield answer._replace(plugin=origin)
        elif answer is not None and not isinstance(answer, type):
            what = f"{cls.__qualname__}.{call} answers {answer!r:.80}, and SGLang wants a class or None"
            fix = "return the class itself: SGLang makes the object, and imports nothing by name"
            yield Finding("factory-answer", "problem", what, origin, "it is no class", fix)
        elif answer is not None and not is_hosts(answer):
            yield from examine_part_class(answer, call, origin, host)


def _answers(platform: Any) -> Iterator[tuple[str, Any]]:
    """Each factory that the platform overrides, as a call, with its answer; a Finding where it raises."""
    for name in _FACTORIES:
        factory = getattr(platform, name, None)
        if factory is None or is_hosts(next(k for k in type(platform).__mro__ if name in vars(k))):
            continue
        for keywords in _calls(name):
            text = f"{name}({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
            try:
                yield text, factory(**keywords)
            except NotImplementedError:
                continue  # a refusal, which SGLang shows as it is
            except Exception as error:  # noqa: BLE001 - whatever a vendor's factory raises is the finding
                what = f"{type(platform).__qualname__}.{text} raises {type(error).__name__}"
                yield (
                    text,
                    Finding(
                        "factory-answer",
                        "problem",
                        what,
                        None,
                        f"{error} (at {_place(error)})",
                        "correct what raises",
                    ),
                )


def _calls(name: str) -> list[dict[str, str]]:
    if name != "get_kv_pool_cls":
        return [{}]
    kinds = getattr(sys.modules.get("sglang.srt.platforms.interface"), "KVPoolKind", None)
    return [{"kind": kind} for kind in get_args(kinds)]


def _place(error: BaseException) -> str:
    trace = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    return f"{trace[-1].filename}:{trace[-1].lineno}" if trace else "?"
