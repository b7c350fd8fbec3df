"""All sites of the process: maps keys to sites and propagates a change of one site to the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType

from sglang_platform.core.errors import HookError, HookSignatureError
from sglang_platform.core.hooks.call.fit import refusal, taken_by_position_only
from sglang_platform.core.hooks.patching.site import Site, last_replacement
from sglang_platform.core.hooks.references.swaps import Swap
from sglang_platform.core.hooks.references.sweep import sweep
from sglang_platform.core.hooks.registration import Registration, stacking
from sglang_platform.core.hooks.report import fail, log, warn_of_two
from sglang_platform.core.hooks.targets import MissingName, Place, locate
from sglang_platform.core.hooks.types import HookType
from sglang_platform.core.installed.address import Address

__all__ = ["Sites"]


class Sites:
    """All sites. Changes of sites collect swaps, which `bring_along` executes at the end of a round.

    `hooks` are the registrations by key, as the engine keeps them.
    """

    def __init__(self, hooks: Mapping[str, Sequence[Registration]]) -> None:
        self._hooks = hooks
        self._by_key: dict[str, Site] = {}
        self._swaps: list[Swap] = []

    def __iter__(self) -> Iterator[Site]:
        return iter(dict.fromkeys(self._by_key.values()))

    def settle(self, key: str, address: Address, module: ModuleType) -> MissingName | None:
        """Make the attribute at `address` match the hooks of `key`; returns the reason if there is none."""
        site = self._by_key.get(key)
        found = locate(module, address.path)
        if site is not None and (not isinstance(found, Place) or not site.stands_at(found)):
            self.leave(key)  # other code has replaced it
            site, found = None, locate(module, address.path)
        if not isinstance(found, Place):
            return found
        if site is None:
            site = self._enter(key, found, str(address))
        if site is not None:
            self._restack(site)
        return None

    def leave(self, key: str) -> None:
        """Undo a key's hooks; when the last key leaves a site, the original is restored."""
        site = self._by_key.pop(key, None)
        if site is None:
            return
        site.keys.discard(key)
        if site.keys:
            self._restack(site)
        else:
            self._swaps += site.remove()

    def module_ran_again(self, module: ModuleType) -> None:
        """Make existing wrappers call the fresh originals after a module reload."""
        for site in self:
            if site.place.owner is module:
                fresh = module.__dict__.get(site.place.name)
                if fresh is not None and fresh is not site.installed:
                    self._adopt(site, fresh)

    def bring_along(self) -> bool:
        """End a round: propagate the changes to other sites first, then to all other holders.

        Returns True if a class was replaced or restored, since hooks on its methods may have to move.
        """
        swaps, self._swaps = self._swaps, []
        for site in self:
            for swap in swaps:
                if not site.made(swap.new) and site.place.raw is swap.old:
                    self._adopt(site, swap.new)
        self._refresh_inherited()
        for batch in _batches(swaps):
            sweep(batch, lambda: [thing for site in self for thing in site.objects()])
        for site in self:
            self._keep_record(site, [swap for swap in swaps if site.made(swap.new)])
        return any(isinstance(swap.old, type) for swap in swaps)

    def _hooks_on(self, site: Site) -> list[Registration]:
        return [one for key in site.keys for one in self._hooks[key]]

    def _enter(self, key: str, place: Place, where: str) -> Site | None:
        """Add the key to the site at a place, created if needed; None if the place cannot be hooked."""
        site = next((one for one in self._by_key.values() if one.covers(place)), None)
        if site is None:
            try:
                site = Site(place, where)
            except HookError as error:
                fail(self._hooks[key], HookError, error.why or error.what, where)
                return None
        self._note_conflicts(key, place, site)
        site.keys.add(key)
        self._by_key[key] = site
        site.join(place)
        return site

    def _restack(self, site: Site) -> None:
        """Apply all hooks of a site that fit it."""
        accepted = self._accepted(site)
        try:
            if site.must_leave_before(accepted):
                self._swaps += site.remove()
            if accepted:
                self._swaps += site.install(accepted)
        except HookError as error:
            fail(accepted, HookError, error.why or error.what, site.where)
            return
        winner = last_replacement(accepted)
        for one in accepted:
            one.overridden = one.type is HookType.REPLACE and one is not winner
            if one.overridden and winner is not None:
                one.fail(HookError, f"overridden by the {winner.label}")
            else:
                one.apply()

    def _accepted(self, site: Site) -> list[Registration]:
        """The hooks of a site that fit it, in stacking order; the others are marked as failed."""
        accepted = []
        for one in sorted(self._hooks_on(site), key=stacking):
            why = refusal(site.hookable, one)
            if why is not None:
                fail([one], HookSignatureError, why, site.where)
                continue
            accepted.append(one)
            if one.state == "applied":
                continue
            names = taken_by_position_only(site.hookable, one, site.place.raw, site.place.owner)
            if names:
                what = "The %s on %s fails where an argument comes by name: %s"
                log().warning(what, one.label, site.where, ", ".join(names))
        return accepted

    def _adopt(self, site: Site, original: object) -> None:
        if site.adopt(original):
            self._restack(site)

    def _refresh_inherited(self) -> None:
        """Make hooked inherited methods call the current method of their parent class."""
        for site in self:
            owner, name = site.place.owner, site.place.name
            if not site.place.inherited or not isinstance(owner, type):
                continue
            raw = next((vars(klass)[name] for klass in owner.__mro__[1:] if name in vars(klass)), None)
            if raw is not None and raw is not site.place.raw:
                self._adopt(site, raw)

    def _keep_record(self, site: Site, swaps: list[Swap]) -> None:
        """Store the edits of a site's swaps for undoing, and report the unreached holders."""
        if not swaps:
            return
        for swap in swaps:
            site.edits += swap.edits
            swap.edits.clear()  # an edit refers to its swap: no cycle may keep the old object alive
        unreached = tuple(sorted({name for swap in swaps for name in swap.unreached}))
        for one in self._hooks_on(site):
            if one.state == "applied":
                one.unreached = unreached
        if unreached:
            log().warning("Hooks on %s do not reach: %s", site.where, "; ".join(unreached))

    def _note_conflicts(self, key: str, place: Place, site: Site) -> None:
        """Warn if a replacement class defines a hooked method itself, or if one object is replaced twice."""
        above = key.rpartition(".")[0]
        replaced = self._by_key.get(above)
        if replaced is not None and replaced.installed is place.owner and not place.inherited:
            ours = "; ".join(one.label for one in self._hooks[key])
            theirs = "; ".join(one.label for one in self._hooks[above])
            log().warning("%s: %s on top of the replacement's own method (%s)", site.where, ours, theirs)
        others = [one for one in self._hooks_on(site) if one.type is HookType.REPLACE]
        for one in self._hooks[key]:
            if one.type is HookType.REPLACE:
                warn_of_two(site.where, others, one)


def _batches(swaps: list[Swap]) -> Iterator[list[Swap]]:
    """The swaps of a round, in batches of one sweep each.

    Of several swaps of one object only the last counts. A swap whose old object is the new object of an earlier swap
    goes into a later batch.
    """
    batch: list[Swap] = []
    for swap in {id(swap.old): swap for swap in swaps}.values():
        if any(swap.old is earlier.new for earlier in batch):
            yield batch
            batch = []
        batch.append(swap)
    yield batch
