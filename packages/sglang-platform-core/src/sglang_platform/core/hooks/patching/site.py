"""A place with hooks on it: its original, its hooked form, and how to undo it."""

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
    """A place, and the hooks that are applied to it.

    `place.raw` is the original attribute, `installed` the current one (None while no hook is applied). It is built
    around `wrapper`, the function that calls the hooks, or it is the replacement object that `substitute` describes.
    `edits` are the other slots in which `installed` replaced the original.

    Keys that name the same object share one site.

    Other holders of the original are detected by their reference count. So every reference that the site holds must be
    counted in `references`, and held by one of `objects`.
    """

    __slots__ = ("edits", "hookable", "installed", "keys", "place", "substitute", "where", "wrapper")

    def __init__(self, place: Place, where: str) -> None:
        """Raises HookError if the attribute in `place` cannot be hooked. `where` is its name for messages."""
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
        """True if `value` is the hooked form of this site's original."""
        return value is self.installed or (self.wrapper is not None and value is self.wrapper.function)

    def stands_at(self, place: Place) -> bool:
        """True if `place` holds the hooked form that this site installed."""
        if place.raw is not self.installed:
            return False
        if self.in_module:
            return isinstance(place.owner, ModuleType)
        return place.owner is self.place.owner and place.name == self.place.name

    def covers(self, place: Place) -> bool:
        """True if `place` belongs to this site. Module-level names of the same object share a site."""
        if not isinstance(place.owner, ModuleType):
            return place.owner is self.place.owner and place.name == self.place.name
        if not self.in_module:
            return False
        if self.hookable.by_identity and place.raw is self.installed:
            home = (getattr(place.raw, "__module__", None), getattr(place.raw, "__qualname__", None))
            return home != (place.owner.__name__, place.name)  # its definition is another target
        return place.raw is self.installed or place.raw is self.place.raw

    def install(self, accepted: Sequence[Registration]) -> list[Swap]:
        """Apply the hooks, given in stacking order; returns the swaps for other holders."""
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
        """True if the installed object must be removed first: no hook is left, or another substitute replaces it."""
        replacement = last_replacement(accepted)
        return not accepted or (
            self.substitute is not None and replacement is not None and self.installed is not replacement.hook
        )

    def remove(self) -> list[Swap]:
        """Restore the original, here and in every edited slot; returns the swaps for later holders.

        If other code has patched over our object, that patch stays, and our object only forwards calls.
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
        """Switch to a new original after a module reload or a change of the inherited method.

        Returns False if its flavour differs, so that this site's wrapper cannot replace it.
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
        """Install the hooked form under another module's alias of the same object too."""
        if place.raw is self.place.raw and self.installed is not None:
            names = own_names(place.owner)
            slot = in_mapping(f"{place.owner.__name__}.{place.name}", names, place.name)
            slot.put(self.installed)
            self.edits.append(Edit(slot, Swap(place.raw, self.installed)))

    def references(self, value: object) -> int:
        """Number of references to `value` that this site holds."""
        count = sum(one is value for one in (self.place.raw, self.hookable.function, self.installed))
        count += sum(one is value for one in gc.get_referents(*self._descriptors()))
        return count + (self.wrapper.references(value) if self.wrapper is not None else 0)

    def objects(self) -> Iterator[object]:
        """The objects of this site that may refer to its original."""
        yield from (self, self.place, self.hookable, self.hookable.rebuild, self.edits, *self.edits)
        if not isinstance(self.place.raw, FunctionType):  # a function's defaults may refer to another target
            yield self.place.raw
        if self.wrapper is not None:
            yield from self.wrapper.objects()

    def _descriptors(self) -> list[Any]:
        """The descriptor around the original function, and the bound method that rebuilds it."""
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
        """Swaps for all other references to the original function and to the descriptor around it.

        None for a function that a class borrowed from elsewhere: its other users keep it.
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
        """True if the function was defined in this place, according to its qualified name."""
        owner, name = self.place.owner, self.place.name
        home = f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', '')}.{name}"
        own = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        return own == home or own.endswith("<locals>." + name)

    def _give_back(self, wrapper: Wrapper, modules: frozenset[str]) -> None:
        """Restore the original in the modules that define a replacement, so that they can call it."""
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
    """The REPLACE hook that wins: the last one in stacking order; None if there is none."""
    return next((one for one in reversed(accepted) if one.type is HookType.REPLACE), None)


def _forget_traced() -> None:
    """Make `torch.compile` retrace all code of this process, since it treats class attributes as constants.

    `torch._dynamo.reset_code_caches()` could deadlock: it waits for a compiling thread, whose imports may wait for us.
    """
    dynamo: Any = sys.modules.get("torch._dynamo")
    frames: Any = sys.modules.get("torch._dynamo.convert_frame")
    if hasattr(dynamo, "reset_code") and hasattr(frames, "input_codes"):  # else still being imported
        for reference in [*frames.input_codes.seen, *frames.output_codes.seen]:
            code = reference()
            if code is not None:
                dynamo.reset_code(code)
