"""`sglang-platform upgrade` on this project's own packages, over every step of SGLang's releases.

The truth is known twice. One wheel of each device package serves on every release (`nox -s host-matrix`): no row of
theirs may say `breaks`. And core's adapter has a table of what changed (`sglang/versions.py`): a place of SGLang
that it names for the older releases alone, and that the newer release has no more, must be reported as gone in that
step. Whether the newer release has it is asked of its files by plain text.

    python benchmarks/upgrade/own_packages.py --wheels FOLDER [--step 0.5.13]
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from measure import GONE, RELEASES

from sglang_platform.core.sglang.versions import History, HostFacts
from sglang_platform.devtools.upgrade.plugin import open_source
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.report import upgrade_of
from sglang_platform.devtools.upgrade.rows import Upgrade
from sglang_platform.devtools.upgrade.wheels import open_release

PACKAGES = Path(__file__).parents[2] / "packages"
DEVICES = ("sglang-platform-cuda", "sglang-platform-rocm", "sglang-platform-example-oot")


def places_in(value: Any) -> set[str]:
    """The places of the host that a fact's value names, as `module` or `module:Class.member`."""
    if isinstance(value, str):
        return {value} if value.startswith("sglang.") else set()
    return (
        {place for one in value for place in places_in(one)}
        if isinstance(value, tuple | frozenset)
        else set()
    )


def left_behind() -> Iterator[tuple[str, str, str]]:
    """Fact, the release that changed it, and a place that only the older releases' value names."""
    for row in dataclasses.fields(HostFacts):
        history = row.metadata.get("history", History(None))
        value = history.newest
        for changed, older in history.before.items():
            yield from ((row.name, changed, place) for place in sorted(places_in(older) - places_in(value)))
            value = older


def has(release: Release, place: str) -> bool:
    """Does the release define the place, by the text of its file?"""
    module, _, name = place.partition(":")
    if not release.tree.has(module):
        return False
    last = name.rpartition(".")[2].encode()
    defined = rb"^\s*((async )?def|class) %b\b|^\s*%b\b.*=|^\s+%b,?$|import .*\b%b\b" % (
        last,
        last,
        last,
        last,
    )
    return not last or re.search(defined, release.tree.text(module), re.M) is not None


def reported_as_gone(upgrade: Upgrade, place: str) -> bool:
    """Has the report a row that says so, of this place or of what it stands in?"""
    dotted = place.replace(":", ".")
    return any(
        one.how in GONE and (dotted == target or dotted.startswith(f"{target}."))
        for one in upgrade.changes
        for target in [one.target.replace(":", ".")]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--step", help="the newer release of one step")
    options = parser.parse_args()
    found = wanted = false = 0
    for old, new in pairwise(RELEASES):
        if options.step not in (None, new):
            continue
        began = time.process_time()
        releases = open_release(old, options.wheels), open_release(new, options.wheels)
        adapter = upgrade_of(open_source(str(PACKAGES / "sglang-platform-core")), *releases)
        gone = [
            (fact, place)
            for fact, changed, place in left_behind()
            if changed == new and not has(releases[1], place)
        ]
        missed = [one for one in gone if not reported_as_gone(adapter, one[1])]
        broken = [
            (package, one)
            for package in DEVICES
            for one in upgrade_of(open_source(str(PACKAGES / package)), *releases).changes
            if one.verdict == "breaks"
        ]
        found, wanted, false = found + len(gone) - len(missed), wanted + len(gone), false + len(broken)
        print(
            f"{old} to {new}: adapter {len(gone) - len(missed)} of {len(gone)} gone places found, "
            f"{adapter.count('breaks')} breaks, {adapter.count('look')} to look at; "
            f"device packages {len(broken)} false; {time.process_time() - began:.1f} s of a processor",
            flush=True,
        )
        for fact, place in missed:
            print(f"  missed: {place} ({fact})")
        for package, one in broken:
            print(f"  false: {package}: {one.kind} {one.target} ({one.places[0]}): {one.what}")
    print(f"all: {found} of {wanted} gone places found, {false} false rows of the device packages")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
