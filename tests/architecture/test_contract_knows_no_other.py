"""The contract is what a vendor writes: it names neither the suite's parts nor SGLang's modules and classes.

Docstrings may name the place in SGLang from which a method was taken. Looked at are names and all other strings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from findings import refuse
from import_graph import DISTRIBUTIONS, ROOT

CORE = ROOT / DISTRIBUTIONS["core"] / "src" / "sglang_platform" / "core"

SUITE = re.compile(
    r"\b(sglang_platform[./])?conformance[./]|\b(fixture|oracle|mutant)s?\b|\b(cases|refused_with)\b"
)
"""The suite's modules, and what only a suite has. `conformance_profiles` is a word of the contract."""

SGLANG = re.compile(r"\bsglang\.\w+")
_OWN_PLACE = re.compile(r"\bsglang_platform\.core\.[\w.]+(:\w+)?")
_MODULE_OF_SUITE = re.compile(r"sglang_platform[./]conformance")


def test_the_contract_names_neither_suite_nor_sglang() -> None:
    found = [one for path in sorted((CORE / "contract").glob("*.py")) for one in _named(path)]
    refuse(found, "metadata of the suite is in the suite, places of SGLang are in the adapter")


def _named(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = _OWN_PLACE.sub("", _string(node))
        if id(node) in docstrings:
            words = _MODULE_OF_SUITE.findall(text)
        else:
            said = " ".join([text, *_names(node)])
            words = [hit[0] for rule in (SUITE, SGLANG) for hit in rule.finditer(said)]
            words += [word for word in re.findall(r"\w+", text) if word in _sglang_classes()]
        yield from (f"{path.name}:{getattr(node, 'lineno', 0)}: {word}" for word in words)


def _string(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _names(node: ast.AST) -> list[str]:
    """The names that a node of the tree uses or defines itself."""
    values = (getattr(node, field, None) for field in ("id", "attr", "name", "arg", "module"))
    return [value for value in values if isinstance(value, str)]


@cache
def _sglang_classes() -> frozenset[str]:
    """The classes of SGLang that the adapter names: strings that are a name of several words, or end in one."""
    hosts, contract = (
        [node for tree in _trees(room) for node in ast.walk(tree)] for room in ("sglang", "contract")
    )
    found = (
        re.fullmatch(r"(?:[\w.]*[.:])?([A-Z]+[a-z0-9]*[A-Z]\w*[a-z]\w*)", _string(node)) for node in hosts
    )
    own = (node.name for node in [*hosts, *contract] if isinstance(node, ast.ClassDef))
    return frozenset(place[1] for place in found if place) - set(own)


def _trees(room: str) -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in (CORE / room).rglob("*.py")]


@pytest.mark.parametrize(
    "text",
    [
        '_CASES = "sglang_platform.conformance.fixtures.attention_cases"',
        "from sglang_platform.conformance.fixtures import pool_kinds",
        "class PoolKind:\n    fixture: str",
        "PoolKind(reference='x', fixture='y')",
        'ORACLE = "the oracle of attention"',
        '_SDPA = f"{_HOST}.layers.SDPABackend"\n_HOST = "sglang.multimodal_gen.runtime"',
        'host_class = "DSATokenToKVPool"',
        '"""A module of `sglang_platform.conformance.kernels.checks`."""',
    ],
)
def test_what_belongs_elsewhere_is_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "row.py").write_text(text)
    assert len(list(_named(tmp_path / "row.py"))) >= 1


@pytest.mark.parametrize(
    "text",
    [
        '"""Names are those of `sglang.srt.platforms.interface`, and the conformance suite reads them."""',
        'class A:\n    base: str = "sglang_platform.core.memory.dsa:DSATokenToKVPool"',
        'conformance_profiles = ("core",)',
        '_NOT_A_VENDORS = {"sglang"}',
        'NAME = "PlatformCapabilities"',
    ],
)
def test_what_a_vendor_writes_passes(tmp_path: Path, text: str) -> None:
    (tmp_path / "row.py").write_text(text)
    assert not list(_named(tmp_path / "row.py"))
