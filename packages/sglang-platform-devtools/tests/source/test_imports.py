"""The imports of a file with their guards: which of them may fail, and which stand in for one that did."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.devtools.source.imports import imports_of

GUARDED = {
    "plain": ("import a", ["a"]),
    "a fallback for a failed import": (
        "try:\n    import a\nexcept ImportError:\n    import b",
        ["a?", "b instead of a"],
    ),
    "for any exception": ("try:\n    import a\nexcept Exception:\n    pass", ["a?"]),
    "bare except": ("try:\n    import a\nexcept:\n    pass", ["a?"]),
    "one of several errors": ("try:\n    import a\nexcept (OSError, ModuleNotFoundError):\n    pass", ["a?"]),
    "an error of another kind": ("try:\n    import a\nexcept KeyError:\n    pass", ["a"]),
    "raised again": (
        "try:\n    import a\nexcept ImportError as e:\n    raise RuntimeError('no a') from e",
        ["a"],
    ),
    "after the try": ("try:\n    import a\nexcept ImportError:\n    pass\nelse:\n    import b", ["a?", "b"]),
    "suppressed": (
        "import contextlib as a\nwith a.suppress(ImportError):\n    import b",
        ["contextlib", "b?"],
    ),
    "suppressed for another error": ("with suppress(OSError):\n    import b", ["b"]),
    "in a function of a guarded block": (
        "try:\n    def f():\n        import a\nexcept ImportError:\n    pass",
        ["a?"],
    ),
    "in a function": ("def f():\n    from a import b", ["a"]),
    "in a case": ("match x:\n    case 1:\n        import a", ["a"]),
    "in a loop and its else": ("for x in y:\n    import a\nelse:\n    import b", ["a", "b"]),
    "for type checkers": ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", ["b"]),
    "not for type checkers": ("if not typing.TYPE_CHECKING:\n    import a\nelse:\n    import b", ["a"]),
    "relative": ("from . import a\nfrom .b import c", []),
    "a file that does not parse": ("import a\ndef (", []),
}


@pytest.mark.parametrize(("source", "expected"), GUARDED.values(), ids=GUARDED)
def test_each_import_is_told_with_its_guard(tmp_path: Path, source: str, expected: list[str]) -> None:
    path = tmp_path / "file.py"
    path.write_text(source)
    told = [
        one.module
        + ("?" if one.guarded else "")
        + (f" instead of {one.instead_of[0].module}" if one.instead_of else "")
        for one in imports_of(path)
    ]
    assert told == expected
