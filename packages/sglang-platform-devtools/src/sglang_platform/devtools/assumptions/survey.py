"""One release of the host: every place that assumes CUDA, with its feature, server arguments and standing."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from sglang_platform.core.sglang.versions import NEWEST
from sglang_platform.devtools.assumptions.carried import NO_SEAMS, CarriedPlaces, SeamHook, Seams
from sglang_platform.devtools.assumptions.features import feature_of
from sglang_platform.devtools.assumptions.reach import FunctionReach
from sglang_platform.devtools.assumptions.reading import FoundPlace, ModuleFacts, read_module
from sglang_platform.devtools.assumptions.settings import ArgumentNames, arguments_of
from sglang_platform.devtools.assumptions.site import ANY_LAUNCH, Assumption, Kind, Standing
from sglang_platform.devtools.assumptions.words import device_of_module
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.module import without_collecting
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.wheels import open_release

__all__ = ["Survey", "survey_of", "surveyed", "version_of"]

_log = logging.getLogger(__name__)

_TOLD = (
    b"cuda", b"triton", b"sgl_kernel", b"flashinfer", b"deep_gemm", b"server_args", b"cutlass", b"jit_kernel",
    b"kernels.jit", b"is_sm", b"is_hopper", b"is_blackwell", b"flash_mla", b"flash_attn", b"nvshmem", b"get_exec(",
    b"get_spec(", b"get_parallel(", b"get_model(", b"get_lora(",
)  # fmt: skip
"""Only modules that contain one of these words are read: they have a place, or may lead to one."""

_DEFINED = re.compile(rb"^[ \t]*(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_COMPILED = b"load_jit("
_LONGEST_LINE = 160


class Survey(NamedTuple):
    """`unread`: modules that could not be read, with the reason. `missing`: hooks whose target this release lacks."""

    label: str
    sites: tuple[Assumption, ...]
    modules: int
    arguments: int
    unread: tuple[str, ...] = ()
    missing: tuple[SeamHook, ...] = ()
    seams: Seams = NO_SEAMS

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


def surveyed(where: str, wheels: Path | None, *, download: bool = True) -> Survey:
    """The survey of a release, as `open_release` finds it, with what the adapter's seams cover in it."""
    tree = open_release(where, wheels, download=download).tree
    try:
        # It needs torch, which reading does not.
        from sglang_platform.devtools.assumptions.seam_hooks import seams_of
    except ImportError:
        return survey_of(tree)
    return survey_of(tree, seams_of(version_of(tree.label) or NEWEST))


def survey_of(tree: SourceTree, seams: Seams = NO_SEAMS) -> Survey:
    """Read the sources of a release. Nothing of it is imported."""
    _log.info("reading %s", tree.label)
    with without_collecting():
        return _survey(tree, seams)


def _survey(tree: SourceTree, seams: Seams) -> Survey:
    told = [name for name in tree.served() if any(word in tree.text(name) for word in _TOLD)]
    defined = frozenset(one.decode() for name in told for one in _DEFINED.findall(tree.text(name)))
    compiled = frozenset(name for name in told if _COMPILED in tree.text(name))
    facts: dict[str, ModuleFacts] = {}
    for name in told:
        module = tree.module(name)
        if module is not None:
            facts[name] = read_module(module, defined, compiled)
    arguments = arguments_of(tree)
    settings = ArgumentNames(arguments, (one for found in facts.values() for one in found.holders))
    reach = FunctionReach(facts, settings)
    carried = CarriedPlaces(seams, reach, Lookup(tree))
    kernels = {one for found in facts.values() for one in found.kernels}
    sites = [
        site
        for name, found in facts.items()
        for site in _sites(name, found, tree, kernels, reach, settings, carried)
    ]
    return Survey(
        tree.label,
        tuple(sorted(sites, key=lambda one: (one.module, one.line))),
        len(facts),
        len(arguments),
        tuple(tree.not_read()),
        tuple(carried.missing),
        seams,
    )


def _sites(
    name: str,
    facts: ModuleFacts,
    tree: SourceTree,
    kernels: set[str],
    reach: FunctionReach,
    settings: ArgumentNames,
    carried: CarriedPlaces,
) -> list[Assumption]:
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
        site = site._replace(arguments=_arguments(one, name, reach, settings))
        if one.under.asked:
            site = site._replace(standing="gated", by="here")
        elif device:
            site = site._replace(standing="gated", by=f"a module for {device}")
        elif reach.is_gated((name, one.function)):
            site = site._replace(standing="gated", by="its callers")
        sites.append(carried.of(site, one.modules))
    return sites


def _arguments(
    found: FoundPlace, module: str, reach: FunctionReach, settings: ArgumentNames
) -> tuple[str, ...]:
    own = settings.of_terms(found.under.terms) or reach.arguments((module, found.function))
    return (ANY_LAUNCH,) if ANY_LAUNCH in own else tuple(sorted(own))


def _inside(path: str) -> str:
    """The path relative to the host's package, the same for a wheel, a folder and an installation."""
    _, _, inside = path.rpartition("/sglang/") if not path.startswith("sglang/") else ("", "", path[7:])
    return inside or path
