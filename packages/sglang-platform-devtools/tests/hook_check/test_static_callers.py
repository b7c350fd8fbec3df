"""bypassed: the host names a function or class at its definition only. Whatever leaves doubt counts as a caller."""

from __future__ import annotations

import pytest

UNUSED = "nothing in the host names it but its definition"

BYPASSED = {
    "a function": ("def f(): pass", "f", UNUSED),
    "a function that only calls itself": ("def f():\n    f()", "f", UNUSED),
    "a class": ("class A: pass", "A", UNUSED),
    "a method": ("class A:\n    def m(self): pass\ndef g(): A()", "A.m", UNUSED),
    "a function named in a comment only": ("def f(): pass\n# f() is good", "f", UNUSED),
    "a function named in documentation only": ('"""Call `f`, or ``f``."""\ndef f(): pass', "f", UNUSED),
    "another definition of this name": ("def f(): pass\nclass A:\n    def f(self): pass", "f", UNUSED),
    "a part of other names": ("def f(): pass\ndef g_f(f_g): ff", "f", UNUSED),
    "a route": (
        "@app.get('/f')\n@app.post('/f')\nasync def f(): pass\nPATHS = ['/f']",
        "f",
        f"{UNUSED}; the original may be kept by `@app.get('/f')`, `@app.post('/f')`",
    ),
    "a registering decorator of a class": ("@register\nclass A: pass", "A", "kept by `@register`"),
}


@pytest.mark.parametrize(("source", "tail", "why"), BYPASSED.values(), ids=BYPASSED)
def test_what_only_its_definition_names_is_bypassed(verdict, source, tail, why) -> None:
    row = verdict(f"host.mod:{tail}", {"host.__init__": "", "host.mod": source})
    assert (row.verdict, row.is_problem) == ("bypassed", True)
    assert why in row.why


REACHED = {
    "a call": ("f", "def f(): pass\ndef g(): f()"),
    "a call by division": ("f", "def f(): pass\ndef g(x): return x.n/f()"),
    "a table": ("f", "def f(): pass\nTABLE = {'x': f}"),
    "a default argument": ("f", "def f(): pass\ndef g(call=f): call()"),
    "another decorator": ("f", "def f(x): return x\n@f\ndef g(): pass"),
    "a string": ("f", "def f(): pass\nWHERE = 'host.mod:f'"),
    "__all__": ("f", "__all__ = ['f']\ndef f(): pass"),
    "a name put together": (
        "handle_abort",
        "def handle_abort(): pass\ndef g(kind): getattr(mod, f'handle_{kind}')()",
    ),
    "a method on any object": ("A.m", "class A:\n    def m(self): pass\ndef g(thing): thing.m()"),
    "a special method": ("A.__init__", "class A:\n    def __init__(self): pass"),
    "a class that its bases may find": ("A", "class Base: pass\nclass A(Base): pass"),
    "a method that a base may call": (
        "A.m",
        "from elsewhere import Base\nclass A(Base):\n    def m(self): pass",
    ),
}


@pytest.mark.parametrize(("tail", "source"), REACHED.values(), ids=REACHED)
def test_what_something_may_reach_is_not_bypassed(verdict, tail, source) -> None:
    assert verdict(f"host.mod:{tail}", {"host.__init__": "", "host.mod": source}).verdict == "exists"


@pytest.mark.parametrize(
    ("module", "expected"),
    [("host.b", "exists"), ("host.test.test_mod", "bypassed")],
    ids=["served", "a test"],
)
def test_another_module_of_the_host_is_a_caller_but_for_its_tests(verdict, module, expected) -> None:
    sources = {"host.__init__": "", "host.mod": "def f(): pass", module: "from host.mod import f"}
    assert verdict("host.mod:f", sources).verdict == expected


def test_a_command_of_the_distribution_is_a_caller(verdict) -> None:
    sources = {"host.__init__": "", "host.cli": "def main(): pass"}
    assert verdict("host.cli:main", sources).verdict == "bypassed"
    entry_points = "[console_scripts]\nhost = host.cli:main\n"
    assert verdict("host.cli:main", sources, entry_points=entry_points).verdict == "exists"
