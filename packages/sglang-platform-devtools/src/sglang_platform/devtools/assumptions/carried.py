"""The places that the adapter's seams cover: hooked functions, stubbed modules and refused server arguments.

The caller of a survey passes in the hooks that the seams register for its release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.assumptions.reach import FunctionReach, Node
from sglang_platform.devtools.assumptions.site import Assumption
from sglang_platform.devtools.source.answers import Definition
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import modules_in

__all__ = ["NO_SEAMS", "CarriedPlaces", "SeamHook", "Seams"]


class SeamHook(NamedTuple):
    """One hook. `target` is ``pkg.mod.Class.attr``, `type` the name of its hook type in lower case."""

    seam: str
    target: str
    type: str
    replaces: bool
    """True if the hook never calls the host's function."""


class Seams(NamedTuple):
    """All seams for one release, on an out-of-tree platform that does not launch Triton."""

    release: str = ""
    hooks: tuple[SeamHook, ...] = ()
    stubs: tuple[str, ...] = ()
    """Modules that are replaced by stubs wherever the host imports them."""
    refused: Mapping[str, str] = {}
    """Server arguments that are refused before the launch, each with the seam that refuses it."""


NO_SEAMS = Seams()


class CarriedPlaces:
    """Finds how the seams cover a place."""

    def __init__(self, seams: Seams, reach: FunctionReach, lookup: Lookup) -> None:
        self._seams, self._reach = seams, reach
        self._hooked: dict[Node, list[SeamHook]] = {}
        self.missing: list[SeamHook] = []
        for hook in seams.hooks:
            node = _written_at(hook.target, lookup)
            if node is None:
                self.missing.append(hook)
            else:
                self._hooked.setdefault(node, []).append(hook)
        self._replaced = frozenset(
            node for node, hooks in self._hooked.items() if any(one.replaces for one in hooks)
        )
        self._only_through = reach.without(self._replaced) if self._replaced else frozenset()

    def of(self, site: Assumption, imported: tuple[str, ...] = ()) -> Assumption:
        """The place with its standing under the seams; a gated place is returned unchanged."""
        if site.standing != "open":
            return site
        node = (site.module, site.function)
        hooks = self._hooked.get(node, [])
        replacing = sorted({one.seam for one in hooks if one.replaces})
        if replacing:
            return site._replace(standing="carried", by=", ".join(replacing))
        if node in self._only_through:
            first = self._reach.first_of(node, self._replaced)
            seams = sorted({one.seam for each in first for one in self._hooked[each] if one.replaces})
            return site._replace(standing="carried", by=f"{', '.join(seams)} (its callers)")
        if site.kind == "import" and any(one in self._seams.stubs for one in imported):
            return site._replace(standing="carried", by="stubs")
        refusing = {self._seams.refused.get(one.partition("=")[0]) for one in site.arguments}
        if refusing and None not in refusing:
            return site._replace(standing="refused", by=", ".join(sorted(map(str, refusing))))
        if hooks:
            by = sorted({f"{one.seam} ({one.type})" for one in hooks})
            return site._replace(standing="hooked", by=", ".join(by))
        return site


def _written_at(target: str, lookup: Lookup) -> Node | None:
    parts = target.split(".")
    count = modules_in(parts[:-1], lookup.modules.has)
    answer = lookup.find(Address(".".join(parts[:count]), tuple(parts[count:]))) if count else None
    if not isinstance(answer, Definition):
        return None
    return answer.address.module, ".".join(answer.address.path)
