"""bypassed: nobody reads the attribute after its module has run. Whatever leaves doubt counts as a caller."""

from __future__ import annotations

import pytest

UNUSED = "nothing in the host names it but its definition"
AS_IT_RUNS = "only its own module uses it, as it runs"

BYPASSED = {
    "an unused function": ("def f(): pass", "f", UNUSED),
    "a function that only calls itself": ("def f():\n    f()", "f", UNUSED),
    "an unused class": ("class A: pass", "A", UNUSED),
    "an unused method": ("class A:\n    def m(self): pass\ndef g(): A()", "A.m", UNUSED),
    "a method that only calls its parent": (
        "class B:\n    def m(self): pass\nclass A(B):\n    def m(self): super().m()\ndef g(): A()",
        "A.m",
        UNUSED,
    ),
    "a method of an unused class": (
        "class A:\n    def m(self): pass\ndef g(thing): thing.m()",
        "A.m",
        "of its class A: nothing in the host names it",
    ),
    "a function named in a comment and a docstring only": (
        'def f(): pass\n# f() is good\ndef g():\n    """Like f() and\n    pkg.f"""',
        "f",
        UNUSED,
    ),
    "a function in __all__ only": ("__all__ = ['f']\ndef f(): pass", "f", UNUSED),
    "an attribute of self": ("def f(): pass\nclass A:\n    def m(self): self.g = 1", "f", UNUSED),
    "a dict registry": ("def f(): pass\nTABLE = {'f': f}", "f", "`TABLE = {'f': f}` (line 2)"),
    "a list": ("class A: pass\nTABLE = [A]", "A", "`TABLE = [A]`"),
    "a table filled by subscript": ("def f(): pass\nTABLE['f'] = f", "f", "`TABLE['f'] = f`"),
    "a registering decorator": (
        "@register('f')\ndef f(): pass",
        "f",
        "its decorator `@register('f')` (line 1)",
    ),
    "a route": ("@app.get('/f')\nasync def f(): pass", "f", "its decorator `@app.get('/f')`"),
    "a registering decorator of a class": ("@register\nclass A: pass", "A", "its decorator `@register`"),
    "a custom op": ("def f(x): pass\nregister_op(op_name='f', op_func=f)", "f", "register_op(op_name='f'"),
    "a default argument": ("def f(): pass\ndef g(call=f): call()", "f", "a default argument of g"),
    "a default argument of a lambda": ("def f(): pass\ng = lambda call=f: call()", "f", AS_IT_RUNS),
    "a partial": (
        "from functools import partial\ndef f(): pass\ng = partial(f, 1)",
        "f",
        "`g = partial(f, 1)`",
    ),
    "a decorator of others": ("def f(x): return x\n@f\ndef g(): pass\ndef h(): g()", "f", "a decorator of g"),
    "called as the module runs": ("def f(): pass\nVALUE = f()", "f", "`VALUE = f()`"),
    "called in a branch as the module runs": ("def f(): pass\nif f():\n    x = 1", "f", AS_IT_RUNS),
    "in a comprehension as the module runs": ("def f(): pass\nx = [f() for _ in y]", "f", AS_IT_RUNS),
    "a getter given to property()": (
        "class A:\n    def _get(self): pass\n    value = property(_get)\ndef g(a: A): a.value",
        "A._get",
        "`value = property(_get)`",
    ),
    "another name in the class": (
        "class A:\n    def m(self): pass\n    n = m\ndef g(a: A): a.n()",
        "A.m",
        "`n = m`",
    ),
    "under __main__": (
        "def f(): pass\nif __name__ == '__main__':\n    f()",
        "f",
        "under `if __name__ == '__main__'`",
    ),
}


@pytest.mark.parametrize(("source", "tail", "why"), BYPASSED.values(), ids=BYPASSED)
def test_an_attribute_that_nobody_reads_later_is_bypassed_and_the_reason_told(
    verdict, source, tail, why
) -> None:
    row = verdict(f"host.mod:{tail}", {"host.__init__": "", "host.mod": source})
    assert (row.verdict, row.is_problem) == ("bypassed", True)
    assert why in row.why


REACHED = {
    "called by a function": {"host.mod": "def f(): pass\ndef g(): f()"},
    "called by a lambda": {"host.mod": "def f(): pass\ng = lambda: f()"},
    "handed over later": {"host.mod": "def f(): pass\ndef g(): return {'f': f}"},
    "a registry, and a call": {"host.mod": "def f(): pass\nTABLE = {'f': f}\ndef g(): f()"},
    "a second name of the module": {"host.mod": "def f(): pass\ng = f"},
    "imported": {"host.mod": "def f(): pass", "host.b": "from host.mod import f\nf()"},
    "imported in brackets": {
        "host.mod": "def f(): pass",
        "host.b": "from host.mod import (\n    x,\n    f,\n)",
    },
    "imported under another name": {"host.mod": "def f(): pass", "host.b": "from host.mod import f as g"},
    "imported inside a function": {
        "host.mod": "def f(): pass",
        "host.b": "def g():\n    from host.mod import f",
    },
    "imported relatively": {"host.mod": "def f(): pass", "host.b": "from .mod import f"},
    "of an imported module": {
        "host.mod": "def f(): pass",
        "host.b": "import host.mod\ndef g(): host.mod.f()",
    },
    "of a renamed module": {"host.mod": "def f(): pass", "host.b": "import host.mod as m\ndef g(): m.f()"},
    "of a module from its package": {"host.mod": "def f(): pass", "host.b": "from host import mod\nmod.f()"},
    "of a module that a function gives": {
        "host.mod": "def f(): pass",
        "host.b": "def _mod():\n    from host import mod\n    return mod\ndef g(): return _mod().f()",
    },
    "through a package": {
        "host.mod": "def f(): pass",
        "host.pkg.__init__": "from host.mod import f",
        "host.b": "from host.pkg import f",
    },
    "through a star import": {
        "host.mod": "def f(): pass",
        "host.pkg.__init__": "from host.mod import *",
        "host.b": "from host.pkg import f\nf()",
    },
    "through two star imports": {
        "host.mod": "def f(): pass",
        "host.pkg.__init__": "from ..host.pkg.inner import *",
        "host.pkg.inner": "from host.mod import *",
        "host.b": "from host.pkg.inner import f\nf()",
    },
    "by a string with its module": {"host.mod": "def f(): pass", "host.b": "WHERE = 'host.mod:f'"},
    "by a bare string": {"host.mod": "def f(): pass", "host.b": "getattr(mod, 'f')()"},
    "by a name put together": {
        "host.mod": "def handle_abort(): pass",
        "host.b": "def g(kind):\n    return getattr(mod, f'handle_{kind}')()",
    },
}


@pytest.mark.parametrize("mods", REACHED.values(), ids=REACHED)
def test_a_function_that_somebody_may_reach_is_not_bypassed(verdict, mods) -> None:
    name = "handle_abort" if "handle_abort" in mods["host.mod"] else "f"
    assert verdict(f"host.mod:{name}", {"host.__init__": "", **mods}).verdict == "exists"


NOT_REACHED = {
    "another module's function of this name": {
        "host.mod": "def f(): pass",
        "host.other": "def f(): pass",
        "host.b": "from host.other import f\nimport host.mod",
    },
    "a foreign module's attribute": {
        "host.mod": "def f(): pass",
        "host.b": "import torch, host.mod\ntorch.ops.f()",
    },
    "imported for type checkers": {
        "host.mod": "def f(): pass",
        "host.b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from host.mod import f",
    },
    "imported by a test": {"host.mod": "def f(): pass", "host.test.test_mod": "from host.mod import f\nf()"},
    "a method of this name": {
        "host.mod": "def f(): pass",
        "host.b": "import host.mod\nclass A:\n    def f(self): pass",
    },
}


@pytest.mark.parametrize("mods", NOT_REACHED.values(), ids=NOT_REACHED)
def test_a_name_that_is_something_else_is_no_caller(verdict, mods) -> None:
    assert verdict("host.mod:f", {"host.__init__": "", **mods}).verdict == "bypassed"


CLASS = "class A:\n    def m(self): pass\ndef make(): return A()\n"
METHOD_REACHED = {
    "on any object": {"host.mod": CLASS, "host.b": "def g(thing): thing.m()"},
    "on self": {"host.mod": CLASS.replace("pass", "pass\n    def n(self): self.m()")},
    "of a result": {"host.mod": CLASS, "host.b": "def g(): make().m()"},
    "handed over": {"host.mod": CLASS, "host.b": "def g(thing): return {'x': thing.m}"},
    "by a subclass": {
        "host.mod": CLASS,
        "host.b": "from host.mod import A\nclass B(A):\n    def m(self): super().m()",
    },
    "by a string": {"host.mod": CLASS, "host.b": "def g(e): e.collective_rpc('m')"},
    "by its foreign base": {"host.mod": "from elsewhere import Base\nclass A(Base):\n    def m(self): pass"},
}


@pytest.mark.parametrize("mods", METHOD_REACHED.values(), ids=METHOD_REACHED)
def test_a_method_that_somebody_may_reach_is_not_bypassed(verdict, mods) -> None:
    assert verdict("host.mod:A.m", {"host.__init__": "", **mods}).verdict == "exists"


def test_an_attribute_of_a_module_is_no_method(verdict) -> None:
    sources = {
        "host.mod": CLASS,
        "host.b": "import torch\nfrom host import c\ndef g(): torch.m() + c.m()",
        "host.c": "",
    }
    assert verdict("host.mod:A.m", {"host.__init__": "", **sources}).verdict == "bypassed"


def test_special_methods_are_called_by_python(verdict) -> None:
    assert (
        verdict("host.mod:A.__init__", {"host.mod": "class A:\n    def __init__(self): pass"}).verdict
        == "exists"
    )


def test_a_class_known_by_its_bases_may_be_found_without_its_name(verdict) -> None:
    sources = {"host.mod": "class Base: pass\nclass A(Base):\n    def m(self): pass\ndef g(thing): thing.m()"}
    assert verdict("host.mod:A", sources).verdict == "exists"
    assert verdict("host.mod:A.m", sources).verdict == "exists"


def test_a_class_in_a_table_keeps_its_methods_hookable(verdict) -> None:
    sources = {"host.mod": "class A:\n    def m(self): pass\nTABLE = {'a': A}\ndef g(thing): thing.m()"}
    assert verdict("host.mod:A", sources).verdict == "bypassed"
    assert verdict("host.mod:A.m", sources).verdict == "exists"


def test_a_command_of_the_distribution_is_a_caller(verdict) -> None:
    sources = {"host.__init__": "", "host.cli": "def main(): pass"}
    assert verdict("host.cli:main", sources).verdict == "bypassed"
    entry_points = "[console_scripts]\nhost = host.cli:main\n"
    assert verdict("host.cli:main", sources, entry_points=entry_points).verdict == "exists"


def test_only_what_keeps_the_original_may_still_be_found_by_the_engine(verdict) -> None:
    held = verdict("host.mod:f", {"host.mod": "def f(): pass\nTABLE = {'f': f}"})
    unused = verdict("host.mod:f", {"host.mod": "def f(): pass"})
    main = verdict("host.mod:f", {"host.mod": "def f(): pass\nif __name__ == '__main__':\n    f()"})
    assert any("hooks report" in note for note in held.notes)
    assert not unused.notes
    assert not main.notes
