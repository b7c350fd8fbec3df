"""What the texts name is there: files, tests, rooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from findings import refuse
from import_graph import DISTRIBUTIONS, ROOT
from rooms import CORE_ROOMS

TEXTS = ("CONTRIBUTING.md", "docs/architecture.md")
SHORT = {
    "ARCH": "tests/architecture",
    "CORE": "packages/sglang-platform-core/tests",
    "HOST": "conformance/tests/host",
}
"""What `docs/architecture.md` writes for three folders."""

_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)#]+)\)")
_FILE = re.compile(r"^[\w*-][\w.*-]*(/[\w.*-]+)*(/|\.(py|md|toml|txt|svg|yml))$|^[\w-][\w.-]*(/[\w.*-]+)+$")


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_text_names_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    refuse(list(_missing(text, ROOT, (ROOT / name).parent)), f"{name} names what exists")


def test_the_map_has_the_rooms_in_their_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `core/(\w+)(?:/|\.py)` \| (.+) \|$", text, re.MULTILINE)
    assert dict(rows) == CORE_ROOMS
    assert [room for room, _ in rows] == list(CORE_ROOMS)


def test_every_rule_of_the_page_names_a_test() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rules = re.findall(r"^- .+(?:\n  .+)*", text, re.MULTILINE)
    assert len(rules) > 20
    refuse(
        [rule for rule in rules if "::test_" not in rule and "the same test" not in rule],
        "a rule names its test",
    )


def test_no_page_names_a_folder_of_the_machine_that_made_it() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    own = re.compile(rf"{re.escape(str(ROOT))}\b|(?<![\w.])/\S+/site-packages/|/home/\w+/")
    found = ((page, own.search(page.read_text(encoding="utf-8"))) for page in pages)
    refuse(
        [f"{page.relative_to(ROOT)}: {it[0]}" for page, it in found if it], "a page is true on every machine"
    )


def test_a_message_to_look_up_is_one_that_the_code_raises() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)
    assert len(messages) > 15
    raised = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in DISTRIBUTIONS.values()
        for path in (ROOT / folder / "src").rglob("*.py")
    )
    refuse([one for one in messages if one not in raised], "the page quotes messages of the code")


def _missing(text: str, root: Path, folder: Path) -> Iterator[str]:
    """What a text names and is not there. Of a file that a reader is to make, `NEW` in its name, the folder counts."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for link in _LINK.findall(text):
        if "://" not in link and not (folder / link).exists():
            yield link
    for code in _CODE.findall(text):
        name, _, function = code.replace("::", ":").partition(":")
        first, _, rest = name.partition("/")
        name = f"{SHORT[first]}/{rest}" if first in SHORT and rest else name
        if _FILE.match(name):
            place = next((place for place in _places(name, root) if place.exists()), None)
            if place is None or (function and not _defines(place, function.rpartition(".")[2])):
                yield code


def _defines(path: Path, function: str) -> bool:
    return f"def {function}(" in path.read_text(encoding="utf-8")


def _places(name: str, root: Path) -> Iterator[Path]:
    """From the top of the repository, or from the sources of a distribution."""
    sources = {short: root / folder / "src" / "sglang_platform" for short, folder in DISTRIBUTIONS.items()}
    own = sources.get(name.partition("/")[0])
    for start in (root, *([own] if own else [])):
        path = start / name
        if "NEW" in path.name:
            yield path.parent
        elif "*" in name:
            yield from start.glob(name)
        else:
            yield path


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see `noxfile.py`, `core/errors.py`, `core/hooks/` and [this](noxfile.py)", []),
        ("see `gone.py` and [that](docs/gone.md)", ["docs/gone.md", "gone.py"]),
        ("a room `core/attic/`, a folder `docs/attic`", ["core/attic/", "docs/attic"]),
        (
            "a test `ARCH/test_one.py::test_there`, `ARCH/test_one.py::test_gone`",
            ["ARCH/test_one.py::test_gone"],
        ),
        ("a step `core/errors.py:Error.told`, `core/errors.py:gone`", ["core/errors.py:gone"]),
        ("a new file `core/hooks/NEW.py`, `core/attic/NEW.py`", ["core/attic/NEW.py"]),
        ("words `HookType`, `get_kv_pool_cls(kind=...)`, `nox -s unit -- PATH`, `.nox/`, `a.b:C`", []),
        ("```\ngone/file.py `gone.py`\n```", []),
    ],
)
def test_what_is_not_there_is_seen(tmp_path: Path, text: str, missing: list[str]) -> None:
    core = tmp_path / DISTRIBUTIONS["core"] / "src" / "sglang_platform" / "core"
    (core / "hooks").mkdir(parents=True)
    (core / "errors.py").write_text("class Error:\n    def told(self): ...\n")
    (tmp_path / "noxfile.py").touch()
    (tmp_path / "docs").mkdir()
    tests = tmp_path / "tests" / "architecture"
    tests.mkdir(parents=True)
    (tests / "test_one.py").write_text("def test_there() -> None: ...\n")
    assert list(_missing(text, tmp_path, tmp_path)) == missing
