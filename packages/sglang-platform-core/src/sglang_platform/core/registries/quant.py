"""Wrappers around the quantisation method of a layer.

A layer of the host has a `quant_method`, which creates its weights, processes them once they are loaded, and applies
them. A wrapper replaces and wraps the method on the layers that its predicate chooses, e.g. to store the weights
in another format on this device, to log, or to measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from sglang_platform.core.discovery.log import log
from sglang_platform.core.registries.registry import Registry, RegistryError

__all__ = ["QuantMethodWrapper", "is_wrapped", "register_quant_wrapper", "wrap", "wrappers"]

Predicate = Callable[[Any, Any], Any]
Factory = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class _Wrapper:
    predicate: Predicate
    factory: Factory


wrappers: Registry[_Wrapper] = Registry("quant_wrappers", "quant wrapper")
_asked = False  # whether a layer has been wrapped, or could have been


class QuantMethodWrapper:
    """Base class of wrappers: delegates every attribute that a subclass does not define to the inner method.

    `isinstance` sees the inner method's class as well, because the host asks for it. A subclass sets
    `_quant_wrapper_id` to the id it is registered under; `inner` is the method it wraps.
    """

    _quant_wrapper_id: ClassVar[str] = ""
    inner: Any

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # not set yet: copy and unpickle look it up before __init__
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # State of the inner method stays there, also when it is set through the wrapper.
        if name == "inner" or name in self.__dict__ or not hasattr(self.inner, name):
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.inner.__class__ if "inner" in self.__dict__ else type(self)


def register_quant_wrapper(id: str, predicate: Predicate, factory: Factory, priority: int = 100) -> None:
    """Wrap the quantisation method of every layer that `predicate` chooses.

    `predicate(layer, server_args)` answers a context for the factory, or None or False to leave the layer alone.
    `factory(layer, method, ctx)` answers the wrapped method, a `QuantMethodWrapper` or an object that has
    `_quant_wrapper_id` on its class and the method it wraps as `inner`. The layer has its method by then, and its
    weights where the host creates them at once; loading and processing them comes after.

    Lower priorities wrap first: 10 and 20 give ``20(10(method))``. The order of registration never matters.
    Raises RegistryError where another wrapper has the id.
    """
    if _asked and id not in wrappers.ids():
        log(__name__).warning("the quant wrapper %r came after layers were wrapped: it is not on those", id)
    wrappers.add(id, _Wrapper(predicate, factory), priority)


def wrap(layer: Any, method: Any, server_args: Any) -> Any:
    """`method` wrapped by all wrappers whose predicate accepts `layer`, each at most once. For the host adapter.

    Raises RegistryError where a factory answers something that is not a wrapper of that id around the method.
    """
    global _asked
    _asked = True
    for entry in wrappers:
        if is_wrapped(method, entry.id):
            continue
        context = wrappers.call(entry, "predicate", entry.part.predicate, layer, server_args)
        if context is None or context is False:
            continue
        wrapped = wrappers.call(entry, "factory", entry.part.factory, layer, method, context)
        if _id_of(wrapped) != entry.id or _inner(wrapped) is not method:
            raise RegistryError(
                f"the factory of quant wrapper {entry.id!r} answered {type(wrapped).__qualname__}",
                plugin=entry.origin,
                why="a wrapper has its id as _quant_wrapper_id on its class, and the method it was given as `inner`",
                fix="derive it from QuantMethodWrapper and set _quant_wrapper_id",
            )
        method = wrapped
    return method


def is_wrapped(method: Any, id: str) -> bool:
    """Whether a wrapper of that id is anywhere in the chain around the innermost method."""
    while method is not None:
        if _id_of(method) == id:
            return True
        method = _inner(method)
    return False


def _id_of(method: Any) -> str | None:
    # By type(): a wrapper's __class__ is its inner method's.
    return getattr(type(method), "_quant_wrapper_id", None)


def _inner(method: Any) -> Any:
    return method.inner if _id_of(method) is not None else None
