"""The wrapper: the function in a target's place, which sends each call through a stack of hooks.

Hooks wrap like an onion: the first is innermost, the last outermost. Nested wrappers would cost a frame per hook, so
one frame calls all hooks whose type runs on the way in or on the way out (`frames` shows it). A hook around the call
gets everything inside it as one callable, its `original`: mostly a `functools.partial`. So a stack without such hooks
costs one frame, and each of them one C call more.

The frame has its target's flavour. An AFTER hook sees the value that a function returns, or that a coroutine gives when
awaited; of a generator or async generator it sees the object itself, before its first item, and may return another
iterator in its place. Hooks on coroutines and generators run when these run, as the target's body does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.call.fit import Parameters
from sglang_platform.core.hooks.call.frames import (
    PARTS,
    cannot_tell,
    fitted_code,
    general_code,
    parameters_to_declare,
)
from sglang_platform.core.hooks.call.kinds import flavour, lend_attributes
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.types import RETURN_NONE, Flavour
from sglang_platform.core.spelling import shown

__all__ = ["Wrapper"]


_MARKS_OF_TORCH = ("_torchdynamo_", "_dynamo_")
"""Attributes that tell `torch.compile` how to treat a function. On the wrapper they would lead it past the hooks."""


class Section(NamedTuple):
    """The content of one frame: `layers` over ``inner(...)``, or over ``around(inner, ...)``."""

    inner: Callable[..., Any]
    around: Callable[..., Any] | None = None
    layers: tuple[Registration, ...] = ()

    @property
    def innermost(self) -> Callable[..., Any]:
        """The callable inside all layers."""
        return self.around or self.inner

    def parts(self) -> Iterator[tuple[str, Any]]:
        """The names that stand free in the frame's text, and their values; `rest_` aside."""
        yield "inner", self.inner
        if self.around is not None:
            yield "around", self.around
        for i, layer in enumerate(self.layers):
            yield f"hook_{i}", layer.hook
            yield f"layer_{i}", layer

    def general(self, target: Flavour) -> CodeType:
        kinds = tuple((layer.type.record.place, flavour(layer.hook) == "coroutine") for layer in self.layers)
        return general_code(target, flavour(self.innermost) == target, self.around is not None, kinds)

    def fitted(self, target: Parameters) -> CodeType | None:
        """The code of a frame with the target's own parameters, if nothing in it can tell."""
        if not cannot_tell(self.innermost, target, 0 if self.around is None else 1):
            return None
        if not all(cannot_tell(one.hook, target, one.type.record.given) for one in self.layers):
            return None
        return fitted_code(
            tuple(one.type.record.place for one in self.layers), self.around is not None, target
        )


class Wrapper:
    """The function in a target's place. It stays the same object while its hooks change.

    A call that is under way keeps the frame that it started with: each change of the stack gives the function other
    code, whose parts are bound under names of their own (``inner_1``, ``hook_0_1``, then ``inner_2`` and so on).
    """

    def __init__(self, target: Callable[..., Any], where: str) -> None:
        """`where` names the target in tracebacks: the file of its frame is ``<hooks on where>``."""
        self.where = where
        self.flavour: Flavour = flavour(target)
        self._declared = parameters_to_declare(target) if self.flavour == "plain" else None
        self._changes = 0
        self._stacked: tuple[int, ...] = ()
        """The ids of the base and of the layers' parts; the frame's globals keep those alive."""
        self._inside: list[functools.partial[Any] | FunctionType] = []
        """The callables made for this stack: the `original` of each hook around the call, and `rest_` frames."""
        self._globals = _frame_globals()
        self.function = self._with_defaults(
            FunctionType(general_code(self.flavour, True, False, ()), self._globals)
        )
        self.resemble(target)
        self.stack(target, [])

    def resemble(self, target: Callable[..., Any]) -> None:
        """Take name, documentation, signature and `__wrapped__` from `target`."""
        functools.update_wrapper(self.function, target)
        for name in [name for name in vars(self.function) if name.startswith(_MARKS_OF_TORCH)]:
            delattr(self.function, name)
        if not isinstance(target, FunctionType):
            lend_attributes(self.function, target)

    def stack(self, base: Callable[..., Any], layers: Sequence[Registration]) -> bool:
        """Let calls go through `layers`, innermost first, to `base`: the target itself or its replacement.

        False where they do already: then the code stays, and its compilation by `torch.compile`.
        """
        stacked = (id(base), *(id(part) for one in layers for part in (one.type, one.hook, one.origin)))
        if stacked == self._stacked:
            return False
        self._stacked = stacked
        self._inside = []
        section = Section(base)
        for layer in layers:
            record = layer.type.record
            if record.place == "around":
                section = Section(self._as_original(section), record.as_around(layer.hook, self.flavour))
            else:
                section = section._replace(layers=(*section.layers, layer))
        self._changes += 1
        self.function.__code__ = self._bind(section, self._globals, f"_{self._changes}")
        return True

    def references(self, value: object) -> int:
        """The number of references from the wrapper to `value`. `sweep` subtracts them to find other holders."""
        attributes = vars(self.function).values()
        lent = (getattr(one, "__self__", None) for one in attributes)
        held = [*self._globals.values(), *attributes, *lent]
        for one in self._inside:
            held += (one.func, *one.args) if isinstance(one, functools.partial) else one.__globals__.values()
        return sum(one is value for one in held)

    def objects(self) -> Iterator[object]:
        """The wrapper's own objects that may refer to its target.

        The target itself is none of them, though `__wrapped__` leads to it: its defaults may refer to another target.
        """
        yield from (self, vars(self), self._globals, self.function, vars(self.function), self._inside)
        yield from (one for name, one in vars(self.function).items() if name != "__wrapped__")
        for one in self._inside:
            yield from (one, one.args if isinstance(one, functools.partial) else one.__globals__)

    def _as_original(self, section: Section) -> Callable[..., Any]:
        """A section as one callable, for the AROUND hook outside it. It tells the target's name."""
        original: Any
        if section.layers or self._lacks_flavour(section):
            original = self._with_defaults(self._function(section, fitted=True))
        elif section.around is not None:
            original = functools.partial(section.around, section.inner)
            self._inside.append(original)
        else:
            return section.inner
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            value = getattr(self.function, attribute, None)
            if value is not None:
                setattr(original, attribute, value)
        return original  # type: ignore[no-any-return]

    def _lacks_flavour(self, section: Section) -> bool:
        """Would its caller get something else than a call of the target gives, e.g. no coroutine?"""
        return self.flavour != "plain" and flavour(section.innermost) != self.flavour

    def _function(self, section: Section, *, fitted: bool) -> FunctionType:
        """A frame inside the wrapper's own, with globals of its own: in the wrapper's it would refer to itself."""
        names = _frame_globals()
        function = FunctionType(self._bind(section, names, fitted=fitted), names)
        self._inside.append(function)
        return function

    def _bind(
        self, section: Section, names: dict[str, Any], suffix: str = "", *, fitted: bool = True
    ) -> CodeType:
        """Put the parts of a frame into its globals `names`, with `suffix`; gives the code that uses them.

        `fitted` allows a frame with the target's parameters.
        """
        names.update({name + suffix: value for name, value in section.parts()})
        code = section.fitted(self._declared) if fitted and self._declared is not None else None
        if code is None:
            code = section.general(self.flavour)
        else:
            for i, layer in enumerate(section.layers):
                if layer.type.record.place == "way in":
                    rest = section._replace(layers=section.layers[:i])
                    names[f"rest_{i}{suffix}"] = self._function(rest, fitted=False)
        name = getattr(section.inner, "__name__", None)
        return code.replace(  # a copy even where nothing changes: the interpreter caches one namespace's values in it
            co_names=tuple(one + suffix if one.startswith(PARTS) else one for one in code.co_names),
            co_name=name if isinstance(name, str) else code.co_name,
            co_filename=f"<hooks on {self.where}>",
        )

    def _with_defaults(self, function: FunctionType) -> FunctionType:
        """Give it the target's defaults. A general frame does not look at them, so they stay when the code changes."""
        if self._declared is not None:
            function.__defaults__ = self._declared.defaults or None
            function.__kwdefaults__ = dict(self._declared.keyword_defaults) or None
        return function


def _frame_globals() -> dict[str, Any]:
    """The globals of a frame, without its parts.

    They have no ``__name__``: `torch.compile` would look for the parts in the module of that name.
    """
    return {
        "__builtins__": __builtins__,
        "changed_arguments": _changed_arguments,
        "RETURN_NONE": RETURN_NONE,
    }


def _changed_arguments(value: Any, layer: Registration) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments that a hook on the way in returned. Raises HookError for any other value."""
    if isinstance(value, tuple | list) and len(value) == 2:
        args, kwargs = value
        if isinstance(args, tuple | list) and isinstance(kwargs, Mapping):
            return args, kwargs
    raise HookError(
        f"The {layer.label} returned {shown(value)}",
        plugin=layer.origin,
        why=f"a {layer.type.name} hook returns None to keep the arguments, or (args, kwargs) to change them",
        fix="return None, or a tuple of all positional arguments and a dict of the keyword arguments",
    )
