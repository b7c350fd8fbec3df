"""One patched place: what stood there, what stands there now, and how to put the first back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

from sglang_platform.core.errors import HookError, HookSignatureError
from sglang_platform.core.hooks.call.compose import Layer, Wrapper
from sglang_platform.core.hooks.call.signatures import misfit, renamed
from sglang_platform.core.hooks.call.kinds import Shape, flavour, shape
from sglang_platform.core.hooks.patching.place import Place, attribute, own_names
from sglang_platform.core.hooks.references.swaps import Edit, Swap, in_mapping
from sglang_platform.core.hooks.registration import HookType, Registration

__all__ = ["Place", "Site"]


class Substitute:
    """An object that takes the place of another by identity: a class for a class."""

    def __init__(self, replacement: Any, home: str, place: Place) -> None:
        self._replacement, self._place, self._home = replacement, place, home
        self._knew_it = {
            name
            for name, module in list(sys.modules.items())
            if own_names(module).get(place.name) is replacement
        }
        self._names = (getattr(replacement, "__module__", None), getattr(replacement, "__qualname__", ""))
        self._renamed = isinstance(replacement, type) and "<locals>" in replacement.__qualname__
        if self._renamed:  # pickle finds a class by its name: this one has none but the one it takes
            replacement.__module__, replacement.__qualname__ = place.raw.__module__, place.raw.__qualname__

    def undo(self) -> Swap:
        """Whoever imported the target's name since then holds the replacement; who knows it as such keeps it."""
        if self._renamed:
            self._replacement.__module__, self._replacement.__qualname__ = self._names
        package = self._home.partition(".")[0]
        its_own = {name for name in list(sys.modules) if name.partition(".")[0] == package}
        if package == str(getattr(self._place.raw, "__module__", "")).partition(".")[0]:
            its_own = {self._home}
        kept = frozenset(self._knew_it | its_own)
        return Swap(self._replacement, self._place.raw, kept=kept, name=self._place.name)


class Site:
    """A place with hooks on it. Several keys share one site where they name the same object."""

    __slots__ = ("edits", "installed", "keys", "place", "shape", "substitute", "where", "wrapper")

    def __init__(self, place: Place, where: str) -> None:
        found = shape(place.raw, place.owner, place.name)
        if isinstance(found, str):
            raise HookError(f"{where} cannot be hooked", why=found)
        if isinstance(place.raw, ModuleType):
            raise HookError(f"{where} cannot be hooked", why="it is a module")
        self.place, self.where, self.shape = place, where, found
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
        """Is `place` this site, hooked?"""
        same = self.in_module if isinstance(place.owner, ModuleType) else place.owner is self.place.owner
        return same and place.raw is self.installed and (self.in_module or place.name == self.place.name)

    def is_of(self, place: Place) -> bool:
        """Does `place` hold what this site hooks, or its hooked form? Module names share a site by their object."""
        if not isinstance(place.owner, ModuleType):
            return place.owner is self.place.owner and place.name == self.place.name
        if not self.in_module:
            return False
        if self.shape.by_identity and place.raw is self.installed:
            home = (getattr(place.raw, "__module__", None), getattr(place.raw, "__qualname__", None))
            return home != (place.owner.__name__, place.name)  # the replacement's own home is another target
        return place.raw is self.installed or place.raw is self.place.raw

    def refusal(self, registration: Registration) -> tuple[type[HookError], str] | None:
        """Why this hook cannot go here."""
        hook, type_ = registration.hook, registration.type
        if self.shape.by_identity:
            kind = "a class" if isinstance(self.place.raw, type) else f"a {type(self.place.raw).__name__}"
            if type_ is not HookType.REPLACE:
                return (
                    HookSignatureError,
                    f"the target is {kind}, which can only be replaced; hook one of its methods",
                )
            if isinstance(self.place.raw, type) and not isinstance(hook, type):
                return HookSignatureError, "the target is a class, and so must be its replacement"
            return None
        kind_of_target, kind_of_hook = flavour(self.shape.function), flavour(hook)
        if kind_of_hook == "coroutine" and kind_of_target in ("plain", "generator"):
            return HookSignatureError, "the hook is async and its target is not: nobody would await it"
        observes = type_ in (HookType.BEFORE, HookType.AFTER)
        if observes and kind_of_hook in ("generator", "async generator"):
            return HookSignatureError, f"a {type_.name} hook that is a generator would never run"
        why = misfit(self.shape.function, hook, type_)
        return None if why is None else (HookSignatureError, why)

    def by_position_only(self, registration: Registration) -> list[str]:
        """The arguments that this hook cannot take by name."""
        if self.shape.by_identity:
            return []
        bound = isinstance(self.place.owner, type) and not isinstance(self.place.raw, staticmethod)
        return renamed(self.shape.function, registration.hook, registration.type, bound)

    def install(self, accepted: Sequence[Registration]) -> Iterator[Swap]:
        """Put the hooks in force; yields what else is to be swapped. `accepted` is in stacking order."""
        replacements = [one for one in accepted if one.type is HookType.REPLACE]
        if self.shape.by_identity:
            yield from self._substitute(replacements[-1])
            return
        kept = frozenset(_home(one.hook) for one in replacements[-1:])
        first = self.wrapper is None
        if self.wrapper is None:
            self.wrapper = Wrapper(self.shape.function, self.where)
            self.installed = self.shape.rebuild(self.wrapper.function)
        self.wrapper.stack(
            replacements[-1].hook if replacements else self.shape.function,
            [Layer(one.type, one.hook, one.label, one.origin) for one in accepted[len(replacements) :]],
        )
        if first:
            self._put(self.installed)
            if not self.place.inherited:
                yield from self._swaps(self.wrapper.function, self.installed, kept)
        else:
            self._give_back(kept)

    def _swaps(self, function: Any, raw: Any, kept: frozenset[str] = frozenset()) -> Iterator[Swap]:
        """Other references to the original. A class that borrowed a function of another home keeps it to itself."""
        owner, inner, original = self.place.owner, self.shape.function, self.place.raw
        home = f"{getattr(owner, '__module__', '')}.{getattr(owner, '__qualname__', '')}.{self.place.name}"
        name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', '')}"
        if not (self.in_module or name == home or name.endswith("<locals>." + self.place.name)):
            return
        if original is inner or isinstance(original, classmethod | staticmethod):
            yield Swap(inner, function, self.references(inner), kept)
        if original is not inner:
            yield Swap(original, raw, self.references(original), kept)

    def _substitute(self, replacement: Registration) -> Iterator[Swap]:
        if self.installed is replacement.hook:
            return
        if self.installed is not None:
            yield from self.remove()
        hook = replacement.hook
        self.substitute = Substitute(hook, _home(hook), self.place)
        self.installed = hook
        self._put(hook)
        yield Swap(self.place.raw, hook, kept=frozenset([_home(hook)]))

    def _give_back(self, modules: frozenset[str]) -> None:
        """A module that defines a replacement may call the original, also where it imported the hooked form."""
        for module in modules:
            names = own_names(sys.modules.get(module))
            for name, value in list(names.items()):
                if self.wrapper is not None and value is self.wrapper.function:
                    names[name] = self.shape.function

    def join(self, place: Place) -> None:
        """Let another module's name for the same object show the hooked form too."""
        if place.raw is self.place.raw and self.installed is not None:
            names = own_names(place.owner)
            slot = in_mapping(f"{place.owner.__name__}.{place.name}", names, place.name)
            slot.put(self.installed)
            self.edits.append(Edit(slot, Swap(place.raw, self.installed)))

    def rebase(self, raw: Any) -> bool:
        """Go on with another original: its module was run again, or the parent's method it inherits has changed."""
        found = shape(raw, self.place.owner, self.place.name)
        if isinstance(found, str) or self.wrapper is None or flavour(found.function) != self.wrapper.flavour:
            return False
        self.place, self.shape = self.place._replace(raw=raw), found
        self.wrapper.rebase(found.function)
        self.installed = found.rebuild(self.wrapper.function)
        self._put(self.installed)
        return True

    def remove(self) -> Iterator[Swap]:
        """Put the original back, here and wherever it was changed; yields what to swap for holders that came later.

        Where somebody has put their own object on top of ours, theirs stays, and ours becomes a plain passage.
        """
        if self.installed is None:
            return
        current = attribute(self.place.owner, self.place.name)
        if current is not None and current.raw is self.installed:
            if self.place.inherited:
                delattr(self.place.owner, self.place.name)
            else:
                self._put(self.place.raw)
        for edit in reversed(self.edits):
            edit.undo()
        self.edits.clear()
        installed, self.installed = self.installed, None
        if self.substitute is not None:
            substitute, self.substitute = self.substitute, None
            yield substitute.undo()
            return
        wrapper, self.wrapper = self.wrapper, None
        assert wrapper is not None
        wrapper.stack(self.shape.function, [])
        around = gc.get_referents(installed) if installed is not wrapper.function else []
        yield Swap(wrapper.function, self.shape.function, sum(one is wrapper.function for one in around))
        if around:
            yield Swap(installed, self.place.raw)

    def references(self, value: object) -> int:
        """How many references to `value` are this site's own."""
        holders = [self.place.raw, self.shape.function, self.installed]
        count = sum(held is value for held in holders)
        count += sum(held is value for held in _inside(self.shape, self.place.raw))
        return count + (self.wrapper.references(value) if self.wrapper is not None else 0)

    def objects(self) -> Iterator[object]:
        """The site's own objects that may refer to what it hooks."""
        yield from (self, self.place, self.shape, self.shape.rebuild, self.edits, *self.edits)
        if not isinstance(self.place.raw, FunctionType):  # whose defaults may refer to another target
            yield self.place.raw
        if self.wrapper is not None:
            yield from self.wrapper.objects()

    def _put(self, value: Any) -> None:
        try:
            setattr(self.place.owner, self.place.name, value)
        except (AttributeError, TypeError) as error:
            self.installed = None
            self.wrapper = None
            raise HookError(f"{self.where} cannot be hooked", why=str(error)) from error


def _home(hook: Any) -> str:
    """The module that defines a hook."""
    return str(getattr(hook, "__module__", None) or type(hook).__module__)


def _inside(found: Shape, raw: Any) -> list[Any]:
    """What a descriptor, and the method that rebuilds it, hold themselves."""
    descriptors = [] if raw is found.function else [raw]
    if not isinstance(found.rebuild, FunctionType | type):
        descriptors.append(found.rebuild)
    return gc.get_referents(*descriptors)
