"""The answers of a platform's factories, asked before a launch would: a class, None, or a refusal with a reason."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from sglang_platform.core.contract.members import defines_contract
from sglang_platform.core.contract.pool_kinds import KINDS
from sglang_platform.core.contract.source import place_of
from sglang_platform.core.contract.srt import SRTPlatform
from sglang_platform.core.correction import class_of_plugin, correction, package_of
from sglang_platform.core.errors import ContractError, PluginFailed, PluginOrigin
from sglang_platform.core.spelling import shown

__all__ = ["refuse_wrong_answers", "wrong_backends"]

_BASES = {"get_paged_allocator_cls": "sglang_platform.core.memory.paged:PagedTokenToKVPoolAllocator"}
_INSTEAD = "return the class itself, or None for SGLang's own"


def refuse_wrong_answers(cls: type, platform: Any, origin: PluginOrigin | None) -> None:
    """Ask each factory of `cls` that needs no more than a kind of pool; called after `init_backend()`.

    Raises ContractError for an answer that is no class or one of another part, and for a class that the contract
    refuses; PluginFailed where an import of the plugin's own fails. Other errors may depend on a launch's arguments.
    """
    for name, function in _factories():
        klass = next((one for one in cls.__mro__ if name in vars(one)), SRTPlatform)
        if defines_contract(klass):
            continue
        place = place_of(klass, name)
        where = f"{place[0]}:{place[1]}" if place else klass.__qualname__
        asked = (
            [{"kind": kind} for kind in KINDS] if "kind" in inspect.signature(function).parameters else [{}]
        )
        for keywords in asked:
            call = f"{name}({', '.join(f'{key}={value!r}' for key, value in keywords.items())})"
            try:
                answer = getattr(platform, name)(**keywords)
            except ContractError as error:
                raise type(error)(error.what, plugin=origin, why=error.why, fix=error.fix) from error
            except ImportError as error:
                _refuse_own_import(error, f"{cls.__qualname__}.{call}", cls, origin)
                continue
            except Exception:  # noqa: BLE001 - a refusal, or an error that depends on a launch's arguments
                continue
            base = KINDS[keywords["kind"]].base if keywords else _BASES.get(name)
            wrong = _wrong(answer, base)
            if wrong:
                raise ContractError(
                    f"{cls.__qualname__}.{call} answers {wrong}",
                    plugin=origin,
                    why=f"SGLang makes its object from a class of that part ({where})",
                    fix=_INSTEAD if base is None else f"{_INSTEAD}; it derives from {base.partition(':')[2]}",
                )


def wrong_backends(backends: Any) -> str | None:
    """What `get_attention_backends()` must answer instead; None for a mapping of names to what makes a backend."""
    if isinstance(backends, Mapping):
        wrong = [value for value in backends.values() if not callable(value)]
        if not wrong and all(isinstance(name, str) for name in backends):
            return None
        backends = wrong[0] if wrong else backends
    return f"get_attention_backends() answers {_described(backends)}: return {{name: class}}"


def _factories() -> Iterator[tuple[str, Any]]:
    """The contract's methods that answer with a class, and need no argument but a kind."""
    for contract in SRTPlatform.__mro__:
        for name, function in vars(contract).items():
            if getattr(function, "__annotations__", {}).get("return") == "type | None" and not (
                set(inspect.signature(function).parameters) - {"self", "kind"}
            ):
                yield name, function


def _wrong(answer: Any, base: str | None) -> str | None:
    if answer is None:
        return None
    if not isinstance(answer, type):
        return f"{_described(answer)}, no class"
    if base is None or any(one.__module__.partition(".")[0] == "sglang" for one in answer.__mro__):
        return None
    module, _, name = base.partition(":")
    wanted = getattr(importlib.import_module(module), name)
    return None if issubclass(answer, wanted) else f"{answer.__qualname__}, which is no {name}"


def _described(answer: Any) -> str:
    if isinstance(answer, str):
        return f"the text {answer!r}"
    return f"the class {answer.__qualname__}" if isinstance(answer, type) else shown(answer)


def _refuse_own_import(error: ImportError, call: str, cls: type, origin: PluginOrigin | None) -> None:
    """Raises PluginFailed unless another package is missing, such as SGLang or Triton."""
    own = class_of_plugin(cls) or cls
    if package_of(error.name or "") in (package_of(own.__module__), "sglang_platform.core"):
        raise PluginFailed(
            f"{call} raises {type(error).__name__}",
            plugin=origin,
            why=str(error).partition(" (")[0],
            fix=correction(error, cls) or f"correct what raises in {call}",
        ) from error
