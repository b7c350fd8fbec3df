"""A place with hooks on it: its original, its hooked form, and the way back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.call.compose import Wrapper
from sglang_platform.core.hooks.call.kinds import flavour, hookable
from sglang_platform.core.hooks.patching.substitute import Substitute, home_module
from sglang_platform.core.hooks.references.swaps import Edit, Swap, in_mapping
from sglang_platform.core.hooks.registration import Registration
from sglang_platform.core.hooks.targets import Place, attribute, own_names
from sglang_platform.core.hooks.types import HookType

__all__ = ["Site", "last_replacement"]


class Site:
    """A place, and the hooks that are in force on it.

    `place.raw` is the original attribute, `installed` the one that is there now, None while no hook is in force. Either
    it was made around `wrapper`, the function that calls the hooks, or `substitute` put another object there by
    identity. `edits` are the other slots in which the original was changed for it.

    Several keys share one site where they name the same object.

    Other holders of the original are found by counting references, so every reference of the site's own must be counted
    in `references` and be held by one of `objects`.
    """

    __slots__ = ("edits", "hookable", "installed", "keys", "place", "substitute", "where", "wrapper")

    def __init__(self, place: Place, where: str) -> None:
        """Raises HookError where nothing in `place` can be hooked. `where` is its name for messages."""
        found = hookable(place.raw, place.owner, place.name)
        if isinstance(found, str):
            raise HookError(f"{where} cannot be hooked", why=found)
        if isinstance(place.raw, ModuleType):
            raise HookError(f"{where} cannot be hooked", why="it is a module")
        self.place, self.where, self.hookable = place, where, found
        self.keys: set[str] = set()
        self.wrapper: Wrapper | None = None
        self.substitute: Substitute | None = None
        self.installed: Any = None
        self.edits: list[Edit] = []

    @property
    def in_module(self) -> bool:
        return isinstance(self.place.owner, ModuleType)

    def made(self, value: object) -> bool:
        """Is it the hooked form of this site's original?"""
        return value is self.installed or (self.wrapper is not None and value is self.wrapper.function)

    def stands_at(self, place: Place) -> bool:
        """True if `place` has the hooked form that this site installed."""
        if place.raw is not self.installed:
            return False
        if self.in_module:
            return isinstance(place.owner, ModuleType)
        return place.owner is self.place.owner and place.name == self.place.name

    def covers(self, place: Place) -> bool:
        """True if `place` has this site's original or hooked form. Names in modules share a site by their object."""
        if not isinstance(place.owner, ModuleType):
            return place.owner is self.place.owner and place.name == self.place.name
        if not self.in_module:
            return False
        if self.hookable.by_identity and place.raw is self.installed:
            home = (getattr(place.raw, "__module__", None), getattr(place.raw, "__qualname__", None))
            return home != (place.owner.__name__, place.name)  # the replacement's own home is another target
        return place.raw is self.installed or place.raw is self.place.raw

    def install(self, accepted: Sequence[Registration]) -> list[Swap]:
        """Put the hooks in force, given in stacking order; returns the swaps for other holders."""
        replacement = last_replacement(accepted)
        if self.hookable.by_identity:
            assert replacement is not None  # no other type is accepted
            return self._install_substitute(replacement.hook)
        kept = frozenset([home_module(replacement.hook)] if replacement is not None else [])
        is_new = self.wrapper is None
        wrapper = self.wrapper or Wrapper(self.hookable.function, self.where)
        restacked = wrapper.stack(
            replacement.hook if replacement is not None else self.hookable.function,
            [one for one in accepted if one.type is not HookType.REPLACE],
        )
        if not is_new:
            if restacked:
                self._has_changed()
            self._give_back(wrapper, kept)
            return []
        self.wrapper = wrapper
        self.installed = self.hookable.rebuild(wrapper.function)
        self._put(self.installed)
        return [] if self.place.inherited else self._swaps(wrapper, kept)

    def must_leave_before(self, accepted: Sequence[Registration]) -> bool:
        """True if the installed object must go first: no hook is left, or another substitute takes its place."""
        replacement = last_replacement(accepted)
        return not accepted or (
            self.substitute is not None and replacement is not None and self.installed is not replacement.hook
        )

    def remove(self) -> list[Swap]:
        """Put the original back, here and in every edited slot; returns the swaps for later holders.

        An object that others have put on top of ours stays. Ours then only passes calls on.
        """
        if self.installed is None:
            return []
        current = attribute(self.place.owner, self.place.name)
        if current is not None and current.raw is self.installed:
            if self.place.inherited:
                delattr(self.place.owner, self.place.name)
                self._has_changed()
            else:
                self._put(self.place.raw)
        for edit in reversed(self.edits):
            edit.undo()
        self.edits.clear()
        installed, wrapper, substitute = self.installed, self.wrapper, self.substitute
        self.installed = self.wrapper = self.substitute = None
        if substitute is not None:
            return [substitute.departure()]
        assert wrapper is not None
        wrapper.stack(self.hookable.function, [])
        if installed is wrapper.function:
            return [Swap(wrapper.function, self.hookable.function)]
        inside = sum(one is wrapper.function for one in gc.get_referents(installed))
        return [Swap(wrapper.function, self.hookable.function, inside), Swap(installed, self.place.raw)]

    def adopt(self, raw: Any) -> bool:
        """Go on with another original: its module was run again, or the parent's method it inherits has changed.

        False where that is of another flavour, so that this site's wrapper cannot stand for it.
        """
        found = hookable(raw, self.place.owner, self.place.name)
        if isinstance(found, str) or self.wrapper is None or flavour(found.function) != self.wrapper.flavour:
            return False
        self.place, self.hookable = self.place._replace(raw=raw), found
        self.wrapper.resemble(found.function)
        self.installed = found.rebuild(self.wrapper.function)
        self._put(self.installed)
        return True

    def join(self, place: Place) -> None:
        """Let another module's name for the same object show the hooked form too."""
        if place.raw is self.place.raw and self.installed is not None:
            names = own_names(place.owner)
            slot = in_mapping(f"{place.owner.__name__}.{place.name}", names, place.name)
            slot.put(self.installed)
            self.edits.append(Edit(slot, Swap(place.raw, self.installed)))

    def references(self, value: object) -> int:
        """How many references to `value` are this site's own."""
        count = sum(one is value for one in (self.place.raw, self.hookable.function, self.installed))
        count += sum(one is value for one in gc.get_referents(*self._descriptors()))
        return count + (self.wrapper.references(value) if self.wrapper is not None else 0)

    def objects(self) -> Iterator[object]:
        """The site's own objects that may refer to its original."""
        yield from (self, self.place, self.hookable, self.hookable.rebuild, self.edits, *self.edits)
        if not isinstance(self.place.raw, FunctionType):  # whose defaults may refer to another target
            yield self.place.raw
        if self.wrapper is not None:
            yield from self.wrapper.objects()

    def _descriptors(self) -> list[Any]:
        """The descriptor around the original function, and the method that rebuilds one like it."""
        raw, rebuild = self.place.raw, self.hookable.rebuild
        found = [] if raw is self.hookable.function else [raw]
        return found if isinstance(rebuild, FunctionType | type) else [*found, rebuild]

    def _install_substitute(self, replacement: Any) -> list[Swap]:
        if self.installed is replacement:
            return []
        self.substitute = Substitute(replacement, self.place)
        self.installed = replacement
        self._put(replacement)
        return [self.substitute.arrival()]

    def _swaps(self, wrapper: Wrapper, kept: frozenset[str]) -> list[Swap]:
        """For the other references to the original: to the function, and to the descriptor around it.

        A function that a class borrowed from elsewhere has other users; they keep it.
        """
        function, raw = self.hookable.function, self.place.raw
        if not (self.in_module or self._is_home_of(function)):
            return []
        swaps = []
        if raw is function or isinstance(raw, classmethod | staticmethod):
            swaps.append(Swap(function, wrapper.function, self.references(function), kept))
        if raw is not function:
            swaps.append(Swap(raw, self.installed, self.references(raw), kept))
        return swaps

    def _is_home_of(self, function: Any) -> bool:
        """True if the function was defined in this place, by its name."""
        owner, name = self.place.owner, self.place.name
        home = f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', '')}.{name}"
        own = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        return own == home or own.endswith("<locals>." + name)

    def _give_back(self, wrapper: Wrapper, modules: frozenset[str]) -> None:
        """A module that defines a replacement may call the original, also where it imported the hooked form."""
        for module in modules:
            names = own_names(sys.modules.get(module))
            for name, value in dict.copy(names).items():
                if value is wrapper.function:
                    names[name] = self.hookable.function

    def _put(self, value: Any) -> None:
        try:
            setattr(self.place.owner, self.place.name, value)
        except (AttributeError, TypeError) as error:
            self.installed = None
            self.wrapper = None
            raise HookError(f"{self.where} cannot be hooked", why=str(error)) from error
        self._has_changed()

    def _has_changed(self) -> None:
        if not self.in_module:
            _forget_traced()


def last_replacement(accepted: Sequence[Registration]) -> Registration | None:
    """The REPLACE hook that wins: the last of those given in stacking order."""
    return next((one for one in reversed(accepted) if one.type is HookType.REPLACE), None)


def _forget_traced() -> None:
    """Have `torch.compile` trace all code of this process again. It takes the attributes of a class for constants.

    Not by `torch._dynamo.reset_code_caches()`: it waits for a thread that compiles, whose imports may wait for us.
    """
    dynamo: Any = sys.modules.get("torch._dynamo")
    frames: Any = sys.modules.get("torch._dynamo.convert_frame")
    if hasattr(dynamo, "reset_code") and hasattr(frames, "input_codes"):  # else it is still being imported
        for reference in [*frames.input_codes.seen, *frames.output_codes.seen]:
            code = reference()
            if code is not None:
                dynamo.reset_code(code)
