"""Ways to write a module in which one name exists, does not exist, or cannot be told without running it.

Every reader of source is asked about each form, and importing the module says who is right.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["FORMS", "Form"]

Truth = Literal["exists", "missing", "unsure"]


class Form(NamedTuple):
    """`vendor/mod.py` has `source`; asked is whether `vendor.mod:path` exists."""

    truth: Truth
    path: str
    source: str
    others: dict[str, str] = {}
    imported: Truth | None = None
    """What importing shows, where `truth` is "unsure"."""


CLASS = "class Thing:\n    def run(self): ...\n"
OTHER = {"other": CLASS + "def thing(): ...\n_hidden = 1\n"}

FORMS: dict[str, Form] = {
    # conditions
    "a function": Form("exists", "thing", "def thing(): ..."),
    "a class": Form("exists", "Thing.run", CLASS),
    "in if and else": Form(
        "exists", "thing", "import os\nif os.name == 'x':\n    def thing(): ...\nelse:\n    def thing(): ..."
    ),
    "in one case of match": Form(
        "exists", "thing", "match 1:\n    case 2:\n        pass\n    case _:\n        def thing(): ..."
    ),
    "captured by a pattern": Form("exists", "thing", "match {'a': 1}:\n    case {'a': thing}:\n        pass"),
    "captured by a star pattern": Form(
        "exists", "thing", "match [1, 2]:\n    case [_, *thing]:\n        pass"
    ),
    "captured by as": Form("exists", "thing", "match 1:\n    case int() as thing:\n        pass"),
    "the rest of a mapping pattern": Form(
        "exists", "thing", "match {'a': 1}:\n    case {**thing}:\n        pass"
    ),
    "for type checkers only": Form(
        "missing", "thing", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    def thing(): ..."
    ),
    "imported for type checkers only": Form(
        "missing", "Thing", "import typing\nif typing.TYPE_CHECKING:\n    from .other import Thing", OTHER
    ),
    "not for type checkers": Form(
        "exists", "thing", "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    def thing(): ..."
    ),
    "the other branch of not type checking": Form(
        "missing",
        "thing",
        "from typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n    x = 1\nelse:\n    def thing(): ...",
    ),
    "in a with": Form(
        "exists", "thing", "import contextlib\nwith contextlib.suppress(OSError):\n    thing = 1"
    ),
    "the name of a with": Form("exists", "thing", "import io\nwith io.StringIO() as thing:\n    pass"),
    "in finally": Form("exists", "thing", "try:\n    x = 1\nfinally:\n    def thing(): ..."),
    "the variable of a loop": Form("exists", "thing", "for thing in (1, 2):\n    pass"),
    "in the else of a loop": Form("exists", "thing", "for x in (1, 2):\n    pass\nelse:\n    thing = 1"),
    "in a while": Form("exists", "thing", "while True:\n    thing = 1\n    break"),
    "deleted": Form("missing", "thing", "thing = 1\ndel thing"),
    "deleted and bound again": Form("exists", "thing", "thing = 1\ndel thing\ndef thing(): ..."),
    "the exception of a handler": Form(
        "missing", "thing", "try:\n    1 / 0\nexcept ZeroDivisionError as thing:\n    pass"
    ),
    # fall-backs
    "a fallback for an import that is there": Form(
        "exists",
        "Thing.run",
        "try:\n    from .other import Thing\nexcept ImportError:\n    class Thing: ...",
        OTHER,
    ),
    "only in the fallback for an import that is there": Form(
        "missing",
        "Thing.extra",
        "try:\n    from .other import Thing\nexcept ImportError:\n    class Thing:\n        extra = 1",
        OTHER,
    ),
    "a fallback for an import that is not there": Form(
        "exists",
        "Thing.extra",
        "try:\n    from no_such_module import Thing\nexcept ImportError:\n    class Thing:\n        extra = 1",
    ),
    "a base with a fallback": Form(
        "exists",
        "Mine.run",
        "try:\n    from .other import Thing\nexcept ImportError:\n    class Thing: ...\nclass Mine(Thing): ...",
        OTHER,
    ),
    "lacked by the base that has a fallback": Form(
        "missing",
        "Mine.extra",
        "try:\n    from .other import Thing\nexcept ImportError:\n    class Thing:\n        extra = 1\n"
        "class Mine(Thing): ...",
        OTHER,
    ),
    "None as a fallback": Form(
        "exists",
        "Thing.run",
        "try:\n    from .other import Thing\nexcept ImportError:\n    Thing = None",
        OTHER,
    ),
    # names from elsewhere
    "re-exported": Form("exists", "Thing.run", "from .other import Thing", OTHER),
    "re-exported under another name": Form("exists", "Job.run", "from .other import Thing as Job", OTHER),
    "under the name it had": Form("missing", "Thing", "from .other import Thing as Job", OTHER),
    "re-exported and not there": Form("missing", "Gone", "from .other import Gone", OTHER),
    "of an imported module": Form("exists", "other.Thing.run", "from . import other", OTHER),
    "starred": Form("exists", "Thing.run", "from .other import *", OTHER),
    "starred with an underscore": Form("missing", "_hidden", "from .other import *", OTHER),
    "starred and in __all__": Form(
        "exists", "_hidden", "from .other import *", {"other": "__all__ = ['_hidden']\n_hidden = 1"}
    ),
    "starred and not in __all__": Form(
        "missing", "thing", "from .other import *", {"other": "__all__ = ['x']\nx = thing = 1"}
    ),
    "starred and added to __all__": Form(
        "exists",
        "_hidden",
        "from .other import *",
        {"other": "__all__ = ['x']\n__all__ += ['_hidden']\nx = _hidden = 1"},
    ),
    "a submodule that nobody imports": Form("missing", "inner", "", {"mod/inner": ""}),
    # assignments
    "an alias": Form("exists", "Job.run", CLASS + "Job = Thing"),
    "an alias of what another module has": Form(
        "exists", "Job.run", "from . import other\nJob = other.Thing", OTHER
    ),
    "lacked by what the alias means": Form("missing", "Job.walk", CLASS + "Job = Thing"),
    "one of several targets": Form("exists", "thing", "a, (b, *thing) = 1, (2, 3)"),
    "a walrus": Form("exists", "thing", "if (thing := 1):\n    pass"),
    "a walrus in a comprehension": Form("exists", "thing", "x = [thing := i for i in (1, 2)]"),
    "the variable of a comprehension": Form("missing", "thing", "x = [thing for thing in (1, 2)]"),
    "an annotation alone": Form("missing", "thing", "thing: int"),
    "only read": Form("missing", "thing", "x = [int, len]\nif x:\n    y = lambda thing: thing"),
    "a global of a function that is called": Form(
        "unsure", "thing", "def make():\n    global thing\n    thing = 1\nmake()", {}, "exists"
    ),
    "a local of a function": Form("missing", "thing", "def make():\n    thing = 1\n    return thing\nmake()"),
    # names made by code
    "globals by a literal": Form("exists", "thing", "globals()['thing'] = 1"),
    "globals in a loop over literals": Form(
        "exists", "make_thing", "for name in ('x', 'thing'):\n    globals()[f'make_{name}'] = 1"
    ),
    "not in the loop that sets globals": Form(
        "missing", "make_no", "for name in ('x', 'thing'):\n    globals()[f'make_{name}'] = 1"
    ),
    "globals by a call": Form(
        "unsure",
        "thing",
        "def names(): return ['thing']\nfor n in names():\n    globals()[n] = 1",
        {},
        "exists",
    ),
    "globals updated": Form("exists", "thing", "globals().update(thing=1)"),
    "globals only read": Form("missing", "thing", "x = 1\ny = globals()['x']\nz = 'thing' in globals()"),
    "exec": Form("unsure", "thing", "exec('thing = 1')", {}, "exists"),
    "a module __getattr__": Form(
        "exists",
        "Thing.run",
        "def __getattr__(name):\n    if name == 'Thing':\n        from .other import Thing\n        return Thing\n"
        "    raise AttributeError(name)",
        OTHER,
    ),
    "not for the module's __getattr__": Form(
        "missing",
        "Gone",
        "def __getattr__(name):\n    if name == 'Thing':\n        from .other import Thing\n        return Thing\n"
        "    raise AttributeError(name)",
        OTHER,
    ),
    "a __getattr__ that may know": Form(
        "unsure",
        "thing",
        "from . import other\ndef __getattr__(name):\n    return getattr(other, name)",
        OTHER,
        "exists",
    ),
    # classes
    "a nested class": Form(
        "exists", "Thing.Inner.run", "class Thing:\n    class Inner:\n        def run(self): ..."
    ),
    "lacked by a nested class": Form(
        "missing", "Thing.Inner.walk", "class Thing:\n    class Inner:\n        def run(self): ..."
    ),
    "inherited": Form("exists", "Mine.run", CLASS + "class Mine(Thing): ..."),
    "inherited across modules": Form(
        "exists", "Mine.run", "from . import other\nclass Mine(other.Thing): ...", OTHER
    ),
    "inherited of a re-export": Form(
        "exists",
        "Mine.run",
        "from .between import Job\nclass Mine(Job): ...",
        {**OTHER, "between": "from .other import Thing as Job"},
    ),
    "lacked by all bases": Form(
        "missing", "Mine.walk", "from . import other\nclass Mine(other.Thing): ...", OTHER
    ),
    "of a builtin base": Form("exists", "Mine.keys", "class Mine(dict): ..."),
    "of a nested class as base": Form(
        "exists",
        "Mine.run",
        "class Thing:\n    class Inner:\n        def run(self): ...\nclass Mine(Thing.Inner): ...",
    ),
    "in a branch of the body": Form(
        "exists",
        "Thing.run",
        "class Thing:\n    if True:\n        def run(self): ...\n    else:\n        x = 1",
    ),
    "set on the class": Form("exists", "Thing.walk", CLASS + "Thing.walk = Thing.run"),
    "set on the class by name": Form("exists", "Thing.walk", CLASS + "setattr(Thing, 'walk', 1)"),
    "set in a loop": Form(
        "exists", "Thing.walk", CLASS + "for name in ('walk', 'swim'):\n    setattr(Thing, name, 1)"
    ),
    "not in the loop that sets": Form(
        "missing", "Thing.fly", CLASS + "for name in ('walk', 'swim'):\n    setattr(Thing, name, 1)"
    ),
    "set by a computed name": Form(
        "unsure", "Thing.walk", CLASS + "def n(): return 'walk'\nsetattr(Thing, n(), 1)", {}, "exists"
    ),
    "a decorated class": Form(
        "unsure",
        "Thing.walk",
        "def add(cls):\n    cls.walk = 1\n    return cls\n@add\nclass Thing: ...",
        {},
        "exists",
    ),
    "a dataclass": Form(
        "missing", "Thing.walk", "import dataclasses\n@dataclasses.dataclass\nclass Thing:\n    x: int = 1"
    ),
    "a computed base": Form(
        "unsure",
        "Mine.run",
        CLASS + "def base(): return Thing\nclass Mine(base()): ...",
        {},
        "exists",
    ),
    "a metaclass": Form(
        "unsure",
        "Mine.walk",
        "class Meta(type):\n    def __new__(m, n, b, d):\n        return super().__new__(m, n, b, {**d, 'walk': 1})\n"
        "class Mine(metaclass=Meta): ...",
        {},
        "exists",
    ),
    "a decorated function": Form("exists", "thing", "import functools\n@functools.cache\ndef thing(): ..."),
    "remade by a call": Form("exists", "Thing.run", CLASS + "Thing = type('Thing', (Thing,), {'walk': 1})"),
    "perhaps added by the call that remade it": Form(
        "unsure", "Thing.walk", CLASS + "Thing = type('Thing', (Thing,), {'walk': 1})", {}, "exists"
    ),
    "one of two definitions": Form(
        "exists",
        "Thing.walk",
        "import os\nif os.name == 'x':\n    class Thing: ...\nelse:\n    class Thing:\n        walk = 1",
    ),
}
