"""All patched places of the process: which key stands on which, and what a change of one means for the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.patching.failures import log, warn_of_failure, warn_of_two
from sglang_platform.core.hooks.patching.place import Absent, Deferred, Place, locate
from sglang_platform.core.hooks.patching.site import Site
from sglang_platform.core.hooks.references.stale import rebind
from sglang_platform.core.hooks.references.swaps import Swap
from sglang_platform.core.hooks.registration import HookType, Registration, stacking
from sglang_platform.core.source.address import Address

__all__ = ["Sites"]

_Hooks = Mapping[str, Sequence[Registration]]


class Sites:
    """`hooks` are the registrations by key, as the engine keeps them. Changes gather swaps until `bring_along`."""

    def __init__(self, hooks: _Hooks) -> None:
        self._hooks = hooks
        self._by_key: dict[str, Site] = {}
        self._swaps: list[Swap] = []

    def __iter__(self) -> Iterator[Site]:
        return iter(list({id(site): site for site in self._by_key.values()}.values()))

    def settle(self, key: str, address: Address, module: ModuleType) -> Absent | Deferred | None:
        """Make the place agree with the hooks on it; the answer says why it could not be found."""
        site = self._by_key.get(key)
        found = locate(module, address.path)
        if site is not None and (not isinstance(found, Place) or not site.stands_at(found)):
            self.leave(key)
            site, found = None, locate(module, address.path)
        if not isinstance(found, Place):
            return found
        if site is None:
            try:
                site = self._at(found) or Site(found, str(address))
            except HookError as error:
                for one in self._hooks[key]:
                    one.fail(HookError, error.why or error.what)
                    warn_of_failure(one, str(address))
                return None
            self._note_conflicts(key, found, site)
            site.keys.add(key)
            self._by_key[key] = site
            site.join(found)
        self._restack(site)
        return None

    def leave(self, key: str) -> None:
        """Take a key's hooks out of force; the last one to leave a site restores the original."""
        site = self._by_key.pop(key, None)
        if site is None:
            return
        site.keys.discard(key)
        if site.keys:
            self._restack(site)
        else:
            self._swaps += site.remove()

    def module_ran_again(self, module: ModuleType) -> None:
        """After a reload its names hold fresh originals; whoever holds our wrapper then calls those."""
        for site in self:
            if site.place.owner is module:
                fresh = module.__dict__.get(site.place.name)
                if fresh is not None and fresh is not site.installed:
                    self._rebase(site, fresh)

    def bring_along(self) -> bool:
        """The references pass of a round: first other sites that stand on what changed, then everybody else.

        True where a class was replaced or restored: hooks on its methods may have to move.
        """
        swaps, self._swaps = self._swaps, []
        for site in self:
            for swap in swaps:
                if not site.made(swap.new) and site.place.raw is swap.old:
                    self._rebase(site, swap.new)
        self._refresh_inherited()
        for batch in _batches(swaps):
            rebind(batch, lambda: [thing for site in self for thing in site.objects()])
        for site in self:
            mine = [swap for swap in swaps if site.made(swap.new)]
            if not mine:
                continue
            for swap in mine:
                site.edits += swap.edits
                swap.edits.clear()  # an edit refers to its swap: no cycle may keep the old object alive
            unreached = tuple(sorted({name for swap in mine for name in swap.unreached}))
            for one in (one for key in site.keys for one in self._hooks[key] if one.state == "applied"):
                one.unreached = unreached
            if unreached:
                log().warning("Hooks on %s do not reach: %s", site.where, "; ".join(unreached))
        return any(isinstance(swap.old, type) for swap in swaps)

    def _at(self, place: Place) -> Site | None:
        return next((site for site in self._by_key.values() if site.is_of(place)), None)

    def _restack(self, site: Site) -> None:
        """Put in force all hooks of a site that fit it."""
        accepted = []
        for one in sorted((one for key in site.keys for one in self._hooks[key]), key=stacking):
            refusal = site.refusal(one)
            if refusal is None:
                accepted.append(one)
                names = site.by_position_only(one) if one.state != "applied" else []
                if names:
                    what = "The %s on %s fails where an argument comes by name: %s"
                    log().warning(what, one.label, site.where, ", ".join(names))
            else:
                one.fail(*refusal)
                warn_of_failure(one, site.where)
        try:
            self._swaps += site.install(accepted) if accepted else site.remove()
        except HookError as error:
            for one in accepted:
                one.fail(HookError, error.why or error.what)
                warn_of_failure(one, site.where)
            return
        replacements = [one for one in accepted if one.type is HookType.REPLACE]
        for one in accepted:
            one.overridden = one in replacements[:-1]
            if one.overridden:
                one.fail(HookError, f"overridden by the {replacements[-1].label}")
            else:
                one.apply()

    def _rebase(self, site: Site, raw: object) -> None:
        if site.rebase(raw):
            self._restack(site)

    def _refresh_inherited(self) -> None:
        """A hooked inherited method calls its parent's: the one that the parent has now."""
        for site in self:
            if not site.place.inherited or not isinstance(site.place.owner, type):
                continue
            holders = (vars(klass) for klass in site.place.owner.__mro__[1:])
            raw = next((names[site.place.name] for names in holders if site.place.name in names), None)
            if raw is not None and raw is not site.place.raw:
                self._rebase(site, raw)

    def _note_conflicts(self, key: str, place: Place, site: Site) -> None:
        """Warn where a replaced class brings its own version of a hooked method, and of one object replaced twice."""
        above = key.rpartition(".")[0]
        replaced = self._by_key.get(above)
        if replaced is not None and replaced.installed is place.owner and not place.inherited:
            ours = "; ".join(one.label for one in self._hooks[key])
            theirs = "; ".join(one.label for one in self._hooks[above])
            log().warning("%s: %s on top of the replacement's own method (%s)", site.where, ours, theirs)
        others = [one for other in site.keys for one in self._hooks[other] if one.type is HookType.REPLACE]
        for one in self._hooks[key]:
            if one.type is HookType.REPLACE:
                warn_of_two(site.where, others, one)


def _batches(swaps: list[Swap]) -> Iterator[list[Swap]]:
    """Without those that a later swap of the same object overtakes; one that goes on from another's end comes after."""
    batch: list[Swap] = []
    for swap in {id(swap.old): swap for swap in swaps}.values():
        if any(swap.old is earlier.new for earlier in batch):
            yield batch
            batch = []
        batch.append(swap)
    yield batch
