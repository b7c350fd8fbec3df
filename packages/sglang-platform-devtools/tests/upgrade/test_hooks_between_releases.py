"""What `upgrade` tells of the target of a hook that both releases have, and of one that the newer release lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.tree import SourceTree
from sglang_platform.devtools.upgrade.compare_hooks import HookAnswers
from sglang_platform.devtools.upgrade.coupling import Coupling, SourcePlace
from sglang_platform.devtools.upgrade.release import Release
from sglang_platform.devtools.upgrade.rows import CouplingChange
from sglang_platform.devtools.upgrade.sides import Sides


def release(version: str, modules: Mapping[str, str]) -> Release:
    """A release of a host; each module ends with a caller of the names that the tests hook."""
    texts = {f"sglang.{name}": f"{text}\ndef use(a): f(), A(), a.m()\n" for name, text in modules.items()}
    return Release(
        SourceTree(f"sglang {version}", {name: name for name in texts}, lambda name: texts[name].encode())
    )


def change(target: str, old: Mapping[str, str], new: Mapping[str, str]) -> CouplingChange | None:
    """The row of a hook on ``sglang.{target}`` from the older modules to the newer."""
    hook = WantedHook(f"sglang.{target}")
    answers = HookAnswers([hook], Sides(release("0.1", old), release("0.2", new)))
    return answers.change(Coupling("hook", hook.target, SourcePlace("hooks.py", 1), hook=hook))


DIFFERENCES = {
    "one more, required": ("def f(x): pass", "def f(x, y): pass", "it takes y, which it requires"),
    "one more, optional": ("def f(x): pass", "def f(x, y=1): pass", "it takes y=..."),
    "one more, by name only": ("def f(x): pass", "def f(x, *, y=1): pass", "it takes y=... (by name only)"),
    "one less": ("def f(x, y): pass", "def f(x): pass", "it no longer takes y"),
    "renamed": ("def f(x): pass", "def f(z): pass", "it takes z, which it requires; it no longer takes x"),
    "a default that is gone": ("def f(x=1): pass", "def f(x): pass", "x=... is x"),
    "by name only now": ("def f(x, y): pass", "def f(x, *, y): pass", "y is y (by name only)"),
    "by position only now": ("def f(x, y): pass", "def f(x, /, y): pass", "x is x (by position only)"),
    "another order": ("def f(x, y): pass", "def f(y, x): pass", "the order of its parameters is y, x"),
    "takes any keyword": ("def f(x): pass", "def f(x, **more): pass", "it takes **more"),
    "takes no more positions": ("def f(*args): pass", "def f(): pass", "it no longer takes *args"),
    "async": ("def f(): pass", "async def f(): pass", "it was a function, and is an async function"),
    "no class any more": ("class f: pass", "def f(): pass", "it was a class, and is a function"),
}


@pytest.mark.parametrize(("before", "after", "what"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_what_differs_from_the_older_release_is_told(before, after, what) -> None:
    row = change("mod:f", {"mod": before}, {"mod": after})
    assert (row.verdict, row.how, row.what) == ("fits", "changed", what)


KINDS = {
    "a property": ("", "@property", "it was a method, and is a property"),
    "a class method": ("", "@classmethod", "it was a method, and is a class method"),
    "a static method": ("@classmethod", "@staticmethod", "it was a class method, and is a static method"),
}


@pytest.mark.parametrize(("before", "after", "what"), KINDS.values(), ids=KINDS)
def test_another_kind_of_method_is_a_change(before, after, what) -> None:
    text = "class A:\n    {}\n    def m(self): pass"
    assert change("mod:A.m", {"mod": text.format(before)}, {"mod": text.format(after)}).what == what


ALIKE = {
    "annotations": ("def f(x=1): pass", "def f(x: int = 1 if True else 2) -> str: pass"),
    "the values of defaults": ("def f(x=1): pass", "def f(x=2): pass"),
    "the body": ("def f(x): pass", "def f(x):\n    return [y for y in x]"),
    "a decorator": ("def f(x): pass", "@traced\ndef f(x): pass"),
    "a value in the place of a function": ("def f(x): pass", "f = TABLE.extend"),
}


@pytest.mark.parametrize(("before", "after"), ALIKE.values(), ids=ALIKE)
def test_what_a_caller_cannot_see_is_no_change(before, after) -> None:
    assert change("mod:f", {"mod": before}, {"mod": after}) is None


def test_a_class_is_compared_by_its_initializer_wherever_it_is_written() -> None:
    text = "class B:\n    def __init__(self{}): pass\nclass A(B): pass"
    row = change("mod:A", {"mod": text.format("")}, {"mod": text.format(", size")})
    assert (row.verdict, row.what) == ("fits", "for __init__, it takes size, which it requires")


def test_a_change_is_seen_through_re_exports_and_moves() -> None:
    new = {"mod": "from sglang.new import f2 as f", "new": "def f2(x, y): pass"}
    row = change("mod:f", {"mod": "def f(x): pass"}, new)
    assert (row.verdict, row.new.place) == ("fits", "sglang/new.py:1")


def test_what_was_elsewhere_before_is_no_new_home() -> None:
    copy = {"copy": "def f(): pass"}
    old = {"mod": "def f(): pass", **copy}
    row = change("mod:f", old, {"mod": "", "new": "def f(): pass", **copy})
    assert (row.verdict, row.how, row.fix) == ("breaks", "moved", "hook sglang.new:f")
    row = change("mod:f", old, {"mod": "", **copy})
    assert (row.verdict, row.how) == ("breaks", "gone")


def test_what_the_older_release_defined_itself_is_gone_even_under_a_foreign_base() -> None:
    base = "from elsewhere import Base\nclass A(Base):\n    "
    row = change("mod:A.m", {"mod": f"{base}def m(self): pass"}, {"mod": f"{base}pass"})
    assert (row.verdict, row.how) == ("breaks", "gone")
    assert row.what == "sglang 0.1 defines it, no class or module of sglang 0.2 does"
    assert change("mod:A.m", {"mod": f"{base}pass"}, {"mod": f"{base}pass"}) is None
