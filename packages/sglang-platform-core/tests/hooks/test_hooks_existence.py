"""Whether a target exists, told from the source: never `missing` for a target that importing the module shows."""

from __future__ import annotations

import ast
import importlib
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sglang_platform.core.hooks import existence
from sglang_platform.core.installed.address import Address
from sglang_platform.core.installed.modules import find_module

OTHER = """
def thing(): ...
class Thing:
    def run(self): ...
_hidden = 1
"""
CLASS = "class Thing:\n    def run(self): ...\n"

TOLD = {
    # where names are bound
    "a function": ("def thing(): ...", "thing", "exists"),
    "no function": ("def thing(): ...", "thong", "missing"),
    "in a branch": (
        "import os\nif os.name == 'x':\n    pass\nelse:\n    def thing(): ...",
        "thing",
        "exists",
    ),
    "in a handler": ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    def thing(): ...", "thing", "exists"),
    "a loop variable": ("for thing in 'ab': pass", "thing", "exists"),
    "in a with": ("import io\nwith io.StringIO() as thing: pass", "thing", "exists"),
    "in a match": ("match [1]:\n    case [*thing]: pass", "thing", "exists"),
    "a walrus": ("x = [(thing := i) for i in 'ab']", "thing", "exists"),
    "one of several targets": ("a, (b, *thing) = 1, (2, 3)", "thing", "exists"),
    "a local of a function": ("def make():\n    thing = 1\nmake()", "thing", "missing"),
    "for type checkers": ("import typing\nif typing.TYPE_CHECKING:\n    thing = 1", "thing", "missing"),
    # names of other modules
    "a re-export": ("from other import Thing as Job", "Job.run", "exists"),
    "lacked by a re-export": ("from other import Thing as Job", "Job.rum", "missing"),
    "under the name it had": ("from other import Thing as Job", "Thing.run", "missing"),
    "of an imported module": ("import other as o", "o.Thing.run", "exists"),
    "lacked by an imported module": ("import other as o", "o.Thong", "missing"),
    "starred": ("from other import *", "Thing.run", "exists"),
    "a re-export in a circle": ("from other import thing\nfrom checked import thing as x", "y", "missing"),
    # classes
    "inherited": ("from other import Thing\nclass Mine(Thing): ...", "Mine.run", "exists"),
    "lacked by all bases": ("import other\nclass Mine(other.Thing, dict): ...", "Mine.rum", "missing"),
    "of a built-in base": ("class Mine(dict): ...", "Mine.keys", "exists"),
    "of a generic base": ("import typing\nclass Mine(typing.Generic[typing.T]): ...", "Mine.rum", "missing"),
    "nested": (
        "class Thing:\n    class Inner(dict):\n        def run(self): ...",
        "Thing.Inner.run",
        "exists",
    ),
    "lacked by a nested class": ("class Thing:\n    class Inner(dict): ...", "Thing.Inner.run", "missing"),
    "a base beside it": (
        "class Thing:\n    class A:\n        def run(self): ...\n    class B(A): ...",
        "Thing.B.run",
        "exists",
    ),
    "every class has it": (CLASS, "Thing.__init__", "exists"),
    "a dataclass": ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x = 1", "A.y", "missing"),
    "a name like one set on self": (
        "class A:\n    def __init__(self):\n        self.thing = 1",
        "A.thing",
        "missing",
    ),
}
NOT_TOLD = {
    "deleted": ("thing = 1\ndel thing", "thing"),
    "an annotation alone": ("thing: int", "thing"),
    "starred from nowhere": ("try:\n    from no_such_module import *\nexcept ImportError: pass", "thing"),
    "lacked by the starred module": ("from other import *", "Thong"),
    "starred by __all__": ("from named import *", "_hidden"),
    "a global of a function": ("def make():\n    global thing\n    thing = 1\nmake()", "thing"),
    "globals()": ("globals()['thing'] = 1", "thing"),
    "exec": ("exec('thing = 1')", "thing"),
    "through sys.modules": ("import sys\nsetattr(sys.modules[__name__], 'thing', 1)", "thing"),
    "by a call with its name": ("import named\nnamed.add(__name__)", "thing"),
    "a module __getattr__": (
        "def __getattr__(name):\n    if name != 'thing':\n        raise AttributeError(name)\n    return 1",
        "thing",
    ),
    "the name of a module": ("", "__name__"),
    "in a value": ("thing = type('thing', (), {'run': 1})", "thing.run"),
    "set on the class": (CLASS + "Thing.walk = 1", "Thing.walk"),
    "set by setattr": (CLASS + "for name in ['walk']:\n    setattr(Thing, name, 1)", "Thing.walk"),
    "set in a function": (CLASS + "def f(x): setattr(x, 'walk', 1)\nf(Thing)", "Thing.walk"),
    "set on all of a list": (
        CLASS + "ALL = [Thing]\nfor one in ALL:\n    setattr(one, 'wa' + 'lk', 1)",
        "Thing.walk",
    ),
    "by another module": (CLASS + "import named\nnamed.give(Thing)", "Thing.walk"),
    "by a decorator": ("from named import give\n@give\nclass Thing: ...", "Thing.walk"),
    "by a decorator named dataclass": (
        "from named import give as dataclass\n@dataclass\nclass Thing: ...",
        "Thing.walk",
    ),
    "by dataclass": ("import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: int", "A.__match_args__"),
    "by slots": ("class Thing:\n    __slots__ = ('walk',)", "Thing.walk"),
    "by a metaclass": ("from named import Meta\nclass Thing(metaclass=Meta): ...", "Thing.walk"),
    "by the metaclass of a base": ("from named import Made\nclass Thing(Made): ...", "Thing.walk"),
    "by __init_subclass__": ("from named import Gives\nclass Thing(Gives): ...", "Thing.walk"),
    "by a computed base": ("from named import base\nclass Thing(base()): ...", "Thing.walk"),
    "by a base that is nowhere": (
        "try:\n    from no_such_module import Base\nexcept ImportError:\n    from named import Made as Base\n"
        "class Thing(Base): ...",
        "Thing.walk",
    ),
    "of a base of its own name": ("class A:\n    class B: ...\nclass A(A.B): ...", "A.walk"),
    "remade": (CLASS + "Thing = type('Thing', (Thing,), {'walk': 1})", "Thing.walk"),
    "in the other definition": (
        "try:\n    from no_such_module import Thing\nexcept ImportError:\n    class Thing:\n        walk = 1",
        "Thing.fly",
    ),
    "a private name": ("class Thing:\n    def __walk(self): ...", "Thing._Thing__walk"),
}
NAMED = """
import sys
__all__ = ['_hidden']
_hidden = 1
def add(name): sys.modules[name].thing = 1
def give(cls):
    cls.walk = 1
    return cls
class Meta(type):
    def __new__(meta, name, bases, names): return super().__new__(meta, name, bases, {**names, 'walk': 1})
class Made(metaclass=Meta): ...
class Gives:
    def __init_subclass__(cls): cls.walk = 1
def base(): return give(type('Base', (), {}))
"""


@pytest.fixture
def asked(host):
    """`asked(source, path)`: whether the target is told missing, and whether importing the module shows it."""

    def ask(source: str, path: str) -> tuple[bool, bool]:
        host.write(other=OTHER, named=NAMED, checked=source)
        lacked = existence.missing(Address("checked", tuple(path.split("."))))
        existence.forget()
        found = importlib.import_module("checked")
        for name in path.split("."):
            found = getattr(found, name, None)
        return lacked is not None, found is not None

    return ask


@pytest.mark.parametrize(("source", "path", "answer"), TOLD.values(), ids=TOLD)
def test_what_one_look_tells_is_right(asked, source: str, path: str, answer: str) -> None:
    assert asked(source, path) == (answer == "missing", answer == "exists")


@pytest.mark.parametrize(("source", "path"), NOT_TOLD.values(), ids=NOT_TOLD)
def test_nothing_is_missing_where_one_look_cannot_tell(asked, source: str, path: str) -> None:
    is_told_missing, _ = asked(source, path)
    assert not is_told_missing


def test_a_submodule_and_a_name_of_its_package_are_both_followed(host) -> None:
    host.write(pkg____init__="from pkg.run import run", pkg__run="def run(): ...\ndef stop(): ...")
    found = [
        existence.missing(Address("pkg", tuple(path.split(".")))) for path in ("run", "run.stop", "walk")
    ]
    existence.forget()
    assert [one is None for one in found] == [True, True, False]


@pytest.mark.host
def test_no_target_of_sglang_is_told_missing() -> None:
    chance = random.Random(23)
    found = find_module("sglang.srt")
    assert found is not None
    assert found.search_path
    folder = Path(found.search_path[0])
    files = [path for path in sorted(folder.rglob("*.py")) if path.stem.isidentifier()]
    targets = [one for path in chance.sample(files, 30) for one in _targets(path, folder)]
    drawn = chance.sample(targets, 100)
    assert [one for one in drawn if existence.missing(one) is not None] == []
    misspelt = [Address(one.module, (*one.path[:-1], f"{one.path[-1]}zq")) for one in drawn]
    told = sum(existence.missing(one) is not None for one in misspelt)
    existence.forget()
    assert told > 70


def _targets(path: Path, folder: Path) -> Iterator[Address]:
    """The functions, classes and methods that a module of `folder` defines."""
    parts = path.relative_to(folder).with_suffix("").parts
    module = ".".join(("sglang", "srt", *parts)).removesuffix(".__init__")
    yield from (Address(module, path) for path in _paths(ast.parse(path.read_bytes()).body))


def _paths(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ...]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield (node.name,)
        if isinstance(node, ast.ClassDef):
            yield from ((node.name, *path) for path in _paths(node.body))
