"""One release of the host: every place that assumes CUDA, with its feature and standing."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import NamedTuple

from sglang_platform.devtools.assumptions.features import feature_of
from sglang_platform.devtools.assumptions.reading import ModuleFacts, read_module
from sglang_platform.devtools.assumptions.site import Assumption, Kind, Standing
from sglang_platform.devtools.assumptions.words import device_of_module
from sglang_platform.devtools.source.module import without_collecting
from sglang_platform.devtools.source.tree import SourceTree

__all__ = ["Survey", "survey_of", "version_of"]

_log = logging.getLogger(__name__)

_COMPILED = b"load_jit("
_LONGEST_LINE = 160


class Survey(NamedTuple):
    """`unread`: modules that could not be read, with the reason."""

    label: str
    sites: tuple[Assumption, ...]
    modules: int
    unread: tuple[str, ...] = ()

    def number_of(
        self, *, kind: Kind | None = None, standing: Standing | None = None, feature: str | None = None
    ) -> int:
        return sum(
            (kind is None or one.kind == kind)
            and (standing is None or one.standing == standing)
            and (feature is None or one.feature == feature)
            for one in self.sites
        )

    @property
    def features(self) -> list[str]:
        """The features by descending number of open places."""
        counts = Counter(one.feature for one in self.sites if one.standing == "open")
        return sorted({one.feature for one in self.sites}, key=lambda name: (-counts[name], name))


def version_of(label: str) -> str | None:
    """The number in the label of a wheel or an installation; None for a folder that does not say."""
    found = re.match(r"sglang (\d[\w.]*)", label)
    return found[1] if found else None


def survey_of(tree: SourceTree) -> Survey:
    """Read the sources of a release. Nothing of it is imported."""
    _log.info("reading %s", tree.label)
    with without_collecting():
        return _survey(tree)


def _survey(tree: SourceTree) -> Survey:
    served = tree.served()
    compiled = frozenset(name for name in served if _COMPILED in tree.text(name))
    facts: dict[str, ModuleFacts] = {}
    for name in served:
        module = tree.module(name)
        if module is not None:
            facts[name] = read_module(module, compiled)
    kernels = {one for found in facts.values() for one in found.kernels}
    sites = [site for name, found in facts.items() for site in _sites(name, found, tree, kernels)]
    return Survey(
        tree.label,
        tuple(sorted(sites, key=lambda one: (one.module, one.line))),
        len(facts),
        tuple(tree.not_read()),
    )


def _sites(name: str, facts: ModuleFacts, tree: SourceTree, kernels: set[str]) -> list[Assumption]:
    launches = [one.found for one in facts.launches if one.is_sure or one.kernel in kernels]
    every = [*facts.found, *launches]
    if not every:
        return []
    lines = tree.text(name).splitlines()
    feature, path = feature_of(name), _inside(facts.module.path)
    device = device_of_module(name)
    sites = []
    for one in every:
        site = Assumption(
            one.kind,
            one.form,
            name,
            one.function,
            path,
            one.line,
            " ".join(lines[one.line - 1].decode(errors="replace").split())[:_LONGEST_LINE],
            feature,
            one.under.asked,
        )
        if one.under.asked:
            site = site._replace(standing="gated", by="here")
        elif device:
            site = site._replace(standing="gated", by=f"a module for {device}")
        sites.append(site)
    return sites


def _inside(path: str) -> str:
    """The path relative to the host's package, the same for a wheel, a folder and an installation."""
    _, _, inside = path.rpartition("/sglang/") if not path.startswith("sglang/") else ("", "", path[7:])
    return inside or path
