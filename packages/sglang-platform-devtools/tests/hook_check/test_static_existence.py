"""exists, moved, missing, unknown: where a target's name leads, in wheels that nothing imports."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.core.errors import HookTargetError
from sglang_platform.devtools.hook_check.check import check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.tree import SourceTree

USER = "from host.mod import *\nimport host.mod\n"
"""Keeps what is tested here from being called unused."""


def modules(**sources: str) -> dict[str, str]:
    named = {
        name.replace("__", ".") if "__init__" not in name else name: text for name, text in sources.items()
    }
    return {f"host.{name}": text for name, text in named.items()}


def used(*names: str) -> str:
    """A module that calls methods and functions of these names on objects it is given."""
    calls = "".join(f"    thing.{name}()\n" for name in names)
    return f"from host.mod import *\nimport host.mod\ndef use(thing):\n{calls}    pass\n"


EXISTS = {
    "a function": ("def f(): pass\ndef g(): f()", "host.mod:f", "host.mod:f"),
    "an async function": ("async def f(): pass\nasync def g(): await f()", "host.mod:f", "host.mod:f"),
    "the dotted spelling": ("def f(): pass\ndef g(): f()", "host.mod.f", "host.mod:f"),
    "a method": ("class A:\n    def m(self): pass\ndef g(a: A): a.m()", "host.mod:A.m", "host.mod:A.m"),
    "a property": (
        "class A:\n    @property\n    def p(self): return 1\n    @p.setter\n    def p(self, v): pass\n"
        "def g(a: A): a.p",
        "host.mod:A.p",
        "host.mod:A.p",
    ),
    "of a class in a class": (
        "class A:\n    class B:\n        def m(self): pass\ndef g(): A.B().m()",
        "host.mod:A.B.m",
        "host.mod:A.B.m",
    ),
    "in a branch": (
        "try:\n    import torch\nexcept ImportError:\n    def f(): pass\nelse:\n    def f(): pass\ndef g(): f()",
        "host.mod:f",
        "host.mod:f",
    ),
    "an inherited method": (
        "class A:\n    def m(self): pass\nclass B(A): pass\ndef g(): B().m()",
        "host.mod:B.m",
        "host.mod:A.m",
    ),
    "a value": ("TABLE = {}\ndef g(): TABLE['x']", "host.mod:TABLE", "host.mod:TABLE"),
    "an alias": ("def f(): pass\nh = f\ndef g(): f()", "host.mod:h", "host.mod:f"),
    "an alias in a class": (
        "class A:\n    def m(self): pass\n    n = m\ndef g(a: A): a.n() or a.m()",
        "host.mod:A.n",
        "host.mod:A.m",
    ),
    "what only object has": ("class A: pass\ndef g(): A()", "host.mod:A.__init__", "host.mod:A.__init__"),
}


@pytest.mark.parametrize(("source", "target", "defined_at"), EXISTS.values(), ids=EXISTS)
def test_a_target_that_exists_is_found_where_it_is_defined(verdict, source, target, defined_at) -> None:
    row = verdict(target, {"host.mod": source})
    assert (row.verdict, row.defined_at, row.is_problem) == ("exists", defined_at, False)


def test_a_property_is_its_getter_and_an_overload_its_implementation(verdict) -> None:
    source = (
        "from typing import overload\n"
        "class A:\n    @property\n    def p(self): return 1\n    @p.setter\n    def p(self, v): pass\n"
        "def g(a: A): a.p or f(1)\n"
        "def f(x): pass\n@overload\ndef f(x: str): ...\n"
    )
    assert verdict("host.mod:A.p", {"host.mod": source}).line == 4
    assert verdict("host.mod:f", {"host.mod": source}).line == 8


REEXPORTS = {
    "from import": {"host.mod": "from host.old import f"},
    "relative": {"host.mod": "from .old import f"},
    "renamed on the way": {
        "host.mod": "from host.between import h as f",
        "host.between": "from .old import f as h",
    },
    "star": {"host.mod": "from host.old import *"},
    "star of a star": {"host.mod": "from .between import *", "host.between": "from .old import *"},
    "with a fallback": {"host.mod": "try:\n    from host.old import f\nexcept ImportError:\n    pass"},
    "by __getattr__": {
        "host.mod": "def __getattr__(name):\n    if name == 'f':\n        from host.old import f\n        return f\n"
        "    raise AttributeError(name)"
    },
    "by a table": {
        "host.mod": "_LAZY = {'f': 'host.old'}\ndef __getattr__(name):\n    if name not in _LAZY:\n"
        "        raise AttributeError(name)\n    return getattr(import_module(_LAZY[name]), name)"
    },
}


@pytest.mark.parametrize("mods", REEXPORTS.values(), ids=REEXPORTS)
def test_a_re_export_exists_and_names_its_origin(verdict, mods) -> None:
    sources = {"host.__init__": "", "host.old": "def f(): pass\ndef g(): f()", **mods}
    row = verdict("host.mod:f", sources)
    assert (row.verdict, row.defined_at) == ("exists", "host.old:f")
    assert row.notes[0].startswith("imported: host.mod:f -> ")


def test_a_name_re_exported_by_its_package_exists(verdict) -> None:
    sources = {
        "host.rope.__init__": "from host.rope.factory import get_rope",
        "host.rope.factory": "def get_rope(size): pass",
        "host.model": "from host.rope import get_rope\ndef build(): get_rope(1)",
    }
    row = verdict("host.rope:get_rope", sources)
    assert (row.verdict, row.defined_at) == ("exists", "host.rope.factory:get_rope")


def test_a_method_is_found_through_a_re_exported_class_and_a_base_elsewhere(verdict) -> None:
    sources = {
        "host.pools": "from host.a import Pool",
        "host.a": "from host import b\nclass Pool(b.Base): pass",
        "host.b": "class Base:\n    def alloc(self): pass\ndef g(pool): pool.alloc()",
        "host.__init__": "",
    }
    row = verdict("host.pools:Pool.alloc", sources)
    assert (row.verdict, row.defined_at) == ("exists", "host.b:Base.alloc")


MISSING = {
    "a misspelled function": ("def launch_server(): pass", "host.mod:lanch_server", "host.mod:launch_server"),
    "a misspelled class": ("class Scheduler: pass", "host.mod:Schedular", "host.mod:Scheduler"),
    "a method": ("class A:\n    def run_batch(self): pass", "host.mod:A.run_batches", "host.mod:A.run_batch"),
    "a method of a base": (
        "class A:\n    def run_batch(self): pass\nclass B(A): pass",
        "host.mod:B.run_batches",
        "host.mod:A.run_batch",
    ),
    "a module": ("", "host.mood:f", "host.mod"),
    "a package": ("", "hoost.mod:f", "host"),
    "a name for type checkers only": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from host.other import Thing",
        "host.mod:Thing",
        None,
    ),
    "a bare annotation": ("class A:\n    size: int", "host.mod:A.size", None),
    "behind a __getattr__ that refuses it": (
        "_LAZY = {'a': 'host.x'}\ndef __getattr__(name):\n    if name in _LAZY:\n        return 1\n"
        "    raise AttributeError(name)",
        "host.mod:f",
        None,
    ),
}


@pytest.mark.parametrize(("source", "target", "close"), MISSING.values(), ids=MISSING)
def test_a_target_that_nothing_has_is_missing_with_the_nearest_name(verdict, source, target, close) -> None:
    row = verdict(target, {"host.__init__": "", "host.mod": source})
    assert (row.verdict, row.is_problem) == ("missing", True)
    assert row.why
    assert close is None or close in row.nearest


def test_an_attribute_of_instances_is_missing_and_said_to_be_theirs(verdict) -> None:
    row = verdict("host.mod:A.size", {"host.mod": "class A:\n    def __init__(self):\n        self.size = 1"})
    assert row.verdict == "missing"
    assert row.why == "host.mod:A has no 'size', only its instances do"


def test_a_method_that_went_to_another_class_is_missing_and_the_class_is_named(verdict) -> None:
    sources = {
        "host.mod": "class Scheduler:\n    def run(self): pass",
        "host.parts": "class Receiver:\n    def recv_requests(self): pass",
    }
    row = verdict("host.mod:Scheduler.recv_requests", sources)
    assert row.verdict == "missing"
    assert row.nearest[0] == "host.parts:Receiver.recv_requests"


MOVED = {
    "a function": ("host.new", "def f(): pass", "f"),
    "an async function": ("host.new", "async def f(): pass", "f"),
    "a class": ("host.new", "class A: pass", "A"),
    "a method": ("host.new", "class A:\n    def f(self): pass", "A.f"),
    "an inherited method": ("host.new", "class B:\n    def f(self): pass\nclass A(B): pass", "A.f"),
    "a value": ("host.new", "TABLE = {}", "TABLE"),
    "into a branch": ("host.new", "if True:\n    def f(): pass", "f"),
    "into a package of the module's name": ("host.mod.part", "def f(): pass", "f"),
    "at the first line of a file": ("host.first", "def f(): pass", "f"),
}


@pytest.mark.parametrize(("home", "source", "tail"), MOVED.values(), ids=MOVED)
def test_a_name_that_another_module_defines_has_moved_there(verdict, home, source, tail) -> None:
    sources = {"host.__init__": "", home: source}
    if not home.startswith("host.mod."):
        sources["host.mod"] = "x = 1"
    row = verdict(f"host.mod:{tail}", sources)
    assert (row.verdict, row.moved_to, row.is_problem) == ("moved", (f"{home}:{tail}",), True)


@pytest.mark.parametrize(
    "target", ["host.gone:A.f", "host.gone.A.f", "host.gone.sub:A.f", "host.gone.sub.A.f"]
)
def test_a_target_whose_module_is_gone_is_followed_too(verdict, target) -> None:
    row = verdict(target, {"host.__init__": "", "host.new": "class A:\n    def f(self): pass"})
    assert (row.verdict, row.moved_to) == ("moved", ("host.new:A.f",))


def test_a_re_export_is_no_new_home(verdict) -> None:
    sources = {"host.mod": "", "host.a": "from host.b import f", "host.b": "def f(): pass"}
    assert verdict("host.mod:f", sources).moved_to == ("host.b:f",)


def test_several_homes_are_listed_the_nearest_first(verdict) -> None:
    sources = {
        "host.a.b.mod": "",
        "host.z.q.other": "def f(): pass",
        "host.a.b.near": "def f(): pass",
        "host.a.far": "def f(): pass",
    }
    assert verdict("host.a.b.mod:f", sources).moved_to == (
        "host.a.b.near:f",
        "host.a.far:f",
        "host.z.q.other:f",
    )


def test_a_class_of_the_same_name_is_no_new_home_while_the_class_is_there(verdict) -> None:
    sources = {"host.mod": "class A: pass", "host.other": "class A:\n    def f(self): pass"}
    row = verdict("host.mod:A.f", sources)
    assert row.verdict == "missing"
    assert row.nearest[0] == "host.other:A.f"


def test_a_name_that_many_modules_define_is_no_trace(verdict) -> None:
    sources = {f"host.m{i}": "def main(): pass" for i in range(8)}
    row = verdict("host.mod:main", {"host.mod": "", **sources})
    assert row.verdict == "missing"
    assert "8 other modules define main" in row.why


def test_a_module_that_moved_as_a_whole_is_followed_whatever_else_has_its_names(verdict) -> None:
    sources = {f"host.m{i}": "def main(): pass" for i in range(8)}
    row = verdict("host.a.norm:main", {"host.kernels.ops.norm": "def main(): pass", **sources})
    assert (row.verdict, row.moved_to) == ("moved", ("host.kernels.ops.norm:main",))


def test_tests_of_the_host_are_no_new_home(verdict) -> None:
    sources = {"host.mod": "", "host.test.test_mod": "def f(): pass", "host.tests.other": "def f(): pass"}
    assert verdict("host.mod:f", sources).verdict == "missing"


UNKNOWN = {
    "another distribution": ("", "elsewhere.mod:f", "not part of host 2"),
    "inside of an import from elsewhere": (
        "from elsewhere import Thing",
        "host.mod:Thing.run",
        "from elsewhere",
    ),
    "a base that cannot be read": (
        "from elsewhere import Base\nclass A(Base): pass",
        "host.mod:A.run",
        "the base class elsewhere.Base is not part of the host",
    ),
    "a computed base": ("class A(make()): pass", "host.mod:A.run", "computed"),
    "a metaclass": ("class A(metaclass=Meta): pass", "host.mod:A.run", "a metaclass"),
    "a class decorator": ("@remake\nclass A: pass", "host.mod:A.run", "a decorator"),
    "a star import from elsewhere": ("from elsewhere import *", "host.mod:f", "imports * from elsewhere"),
    "made in globals()": (
        "for n in names:\n    globals()[n] = make(n)",
        "host.mod:f",
        "makes names as it runs",
    ),
    "a __getattr__ that asks anything": (
        "def __getattr__(name):\n    return getattr(impl, name)",
        "host.mod:f",
        "on first use",
    ),
    "a module that does not parse": ("def f(:\n", "host.mod:f", "cannot be parsed"),
    "attributes of a value": ("TABLE = make()", "host.mod:TABLE.run", "no class that the source shows"),
}


@pytest.mark.parametrize(("source", "target", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_the_sources_cannot_tell_is_unknown_and_no_problem(verdict, source, target, why) -> None:
    row = verdict(target, {"host.__init__": "", "host.mod": source})
    assert (row.verdict, row.is_problem) == ("unknown", False)
    assert why in row.why


def test_a_base_class_of_the_standard_library_is_looked_into(verdict) -> None:
    sources = {"host.mod": "import threading\nclass A(threading.Thread): pass\ndef g(): A().start()"}
    assert verdict("host.mod:A.start", sources).verdict == "exists"
    assert verdict("host.mod:A.stop", sources).verdict == "missing"


def test_setting_an_attribute_of_another_module_makes_no_names_here(verdict) -> None:
    row = verdict("host.mod:f", {"host.mod": "import triton\nsetattr(triton, 'cdiv', 1)"})
    assert row.verdict == "missing"


def test_a_class_that_stands_in_for_a_failed_import_hides_nothing(verdict) -> None:
    source = (
        "try:\n    from elsewhere import Base\nexcept ImportError:\n    class Base: pass\nclass A(Base): pass"
    )
    assert verdict("host.mod:A.run", {"host.mod": source}).verdict == "unknown"


def test_modules_that_import_each_other_end(verdict) -> None:
    sources = {"host.a": "from host.b import f", "host.b": "from host.a import f"}
    assert verdict("host.a:f", sources).verdict == "unknown"


@pytest.mark.parametrize("target", ["", "f", "host.mod:", ":f", "host.mod:f()", "host mod:f", "host.mod:a:b"])
def test_a_malformed_target_is_refused(verdict, target) -> None:
    with pytest.raises(HookTargetError, match="is not a hook target"):
        verdict(target, {"host.mod": ""})


NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
LAYOUT = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5"]), st.sets(NAMES, max_size=3), min_size=1
)


@settings(max_examples=150, deadline=None)
@given(layout=LAYOUT, module=st.sampled_from(["m1", "m2", "m3", "m4", "m5", "m6"]), name=NAMES)
def test_any_layout_gives_the_verdict_that_its_definition_says(layout, module, name) -> None:
    texts = {
        f"host.{m}": "".join(f"def {n}(): pass\n" for n in sorted(names)) + "def _use(o): "
        "o.alpha(), o.beta(), o.gamma(), o.delta()\n"
        for m, names in layout.items()
    }
    everyone = "".join(f"from host.{m} import {', '.join(sorted(n))}\n" for m, n in layout.items() if n)
    texts["host.user"] = everyone or "pass\n"
    host = SourceTree("host", {name: name for name in texts}, lambda name: texts[name].encode())
    (row,) = check([WantedHook(f"host.{module}:{name}")], host)
    homes = {m for m, names in layout.items() if name in names}
    if module in homes:
        assert row.verdict == "exists"
    elif homes:
        assert row.verdict == "moved"
        assert set(row.moved_to) == {f"host.{m}:{name}" for m in homes}
    else:
        assert row.verdict == "missing"
