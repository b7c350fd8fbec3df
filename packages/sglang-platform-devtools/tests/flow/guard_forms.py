"""Forms of guards that plugins have, and forms of uses that fail where the host lacks a name.

A guard is the source of a plugin with a function `register()`. NEW stands for a statement that works from release
0.5.20 on, OLD for one that works before it.
"""

from __future__ import annotations

import re

__all__ = ["CALLED_BY_HOST", "GUARDS", "NEW_USES", "OLD_USES", "UNCLEAR", "UNGUARDED", "plugin_source"]

_HEAD = """
import contextlib, functools, importlib, importlib.metadata, importlib.util, inspect, operator, re, sys
import typing
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import TYPE_CHECKING
import sglang
import sglang.version
import sglang.srt.moved as moved
from packaging import version
from packaging.specifiers import SpecifierSet
from packaging.version import Version, parse
"""

NEW_USES = {
    "import of a module": "import sglang.srt.new as _new",
    "import from a module": "from sglang.srt.new import x",
    "import of a name": "from sglang.srt.moved import name_new",
    "import from a package": "from sglang.srt import new",
    "import_module": "importlib.import_module('sglang.srt.new')",
    "import_module of a constant": "import_module(NEW_MODULE)",
    "import_module of an f-string": "import_module(f'{PREFIX}.new')",
    "__import__": "__import__('sglang.srt.new')",
    "attribute": "moved.name_new",
    "attribute of a class": "moved.Always.since_new",
    "getattr": "getattr(moved, 'name_new')",
    "chain": "sglang.srt.moved.name_new.__name__",
    "default argument": "def inner(call=moved.name_new): ...",
    "decorator": "@moved.name_new\ndef inner(): ...",
    "base class": "class Inner(moved.ClassNew): ...",
    "vars": "vars(moved)['name_new']",
    "helper of the plugin": "load('new')",
    "lambda that is called": "(lambda: moved.name_new)()",
    "comprehension": "[getattr(moved, one) for one in ('same', 'name_new')]",
    "loop": "for one in ('moved', 'new'):\n    import_module('sglang.srt.' + one)",
    "function inside": "def inner():\n    from sglang.srt.new import x\ninner()",
}
OLD_USES = {
    "import of a module": "import sglang.srt.old as _old",
    "import of a name": "from sglang.srt.moved import name_old",
    "import_module": "import_module('sglang.srt.old')",
    "attribute": "moved.name_old",
    "getattr": "getattr(moved, 'name_old')",
}

_CONSTANTS = """
NEW_MODULE = "sglang.srt.new"
PREFIX = "sglang.srt"
def load(name):
    return importlib.import_module(f"sglang.srt.{name}")
"""


def _test(condition: str, more: str = "") -> str:
    return f"{more}\ndef register():\n    if {condition}:\n        NEW\n    else:\n        OLD\n"


_CONDITIONS = {
    "Version": "Version(sglang.__version__) >= Version('0.5.20')",
    "Version, turned": "not Version(sglang.__version__) < Version('0.5.20')",
    "parse": "parse(sglang.__version__) >= parse('0.5.20')",
    "version.parse": "version.parse(sglang.version.__version__) >= version.parse('0.5.20')",
    "metadata": "Version(importlib.metadata.version('sglang')) >= Version('0.5.20')",
    "metadata, by name": "Version(version_of('sglang')) >= Version('0.5.20')",
    "ints": "tuple(int(one) for one in sglang.__version__.split('.')[:3]) >= (0, 5, 20)",
    "map": "tuple(map(int, sglang.__version__.split('.')[:3])) >= (0, 5, 20)",
    "list": "[int(one) for one in sglang.__version__.split('.')[:2]] == [0, 5] and int(sglang.__version__.split('.')[2]) >= 20",
    "string": "sglang.__version__ >= '0.5.20'",
    "startswith": "not sglang.__version__.startswith(('0.5.11', '0.5.13', '0.5.9'))",
    "in a tuple": "sglang.__version__ not in ('0.5.9', '0.5.11', '0.5.13')",
    "release": "Version(sglang.__version__).release >= (0, 5, 20)",
    "micro": "(Version(sglang.__version__).minor, Version(sglang.__version__).micro) >= (5, 20)",
    "chain of comparisons": "Version('0.5.20') <= Version(sglang.__version__) < Version('1')",
    "or": "Version(sglang.__version__) >= Version('0.5.20') or hasattr(moved, 'nothing')",
    "and": "hasattr(moved, 'same') and Version(sglang.__version__) >= Version('0.5.20')",
    "hasattr": "hasattr(moved, 'name_new')",
    "hasattr of a class": "hasattr(moved.Always, 'since_new')",
    "getattr": "getattr(moved, 'name_new', None) is not None",
    "getattr, plain": "getattr(moved, 'name_new', None)",
    "getattr of a module": "getattr(sglang, '__version__', '0') >= '0.5.20'",
    "find_spec": "importlib.util.find_spec('sglang.srt.new')",
    "find_spec is not None": "find_spec('sglang.srt.new') is not None",
    "find_spec is None": "not (find_spec('sglang.srt.new') is None)",
    "dir": "'name_new' in dir(moved)",
    "vars": "'name_new' in vars(moved)",
    "__dict__": "'name_new' in moved.__dict__",
    "vars get": "vars(moved).get('name_new') is not None",
    "walrus": "(found := getattr(moved, 'name_new', None)) is not None and found",
    "walrus of a version": "(v := Version(sglang.__version__)) and v >= Version('0.5.20')",
    "signature": "'more' in inspect.signature(moved.same).parameters",
    "bool of hasattr": "bool(hasattr(moved, 'name_new'))",
    "any": "any(hasattr(moved, one) for one in ('name_new', 'nothing'))",
    "all": "all(hasattr(moved, one) for one in ('same', 'name_new'))",
    "callable": "callable(getattr(moved, 'name_new', None))",
    "operator": "operator.ge(Version(sglang.__version__), Version('0.5.20'))",
    "conditional expression": "(True if hasattr(moved, 'name_new') else False)",
    "subscript of a table": "{True: 1, False: 0}[hasattr(moved, 'name_new')]",
}

_BEFORE = {
    "constant": ("GE", "GE = Version(sglang.__version__) >= Version('0.5.20')"),
    "constant of a constant": ("not LT", "V = Version(sglang.__version__)\nLT = V < Version('0.5.20')"),
    "helper": ("at_least('0.5.20')", "def at_least(v):\n    return Version(sglang.__version__) >= Version(v)"),
    "helper with a default": ("at_least()", "def at_least(v='0.5.20'):\n    return Version(sglang.__version__) >= Version(v)"),
    "helper with a keyword": ("at_least(v='0.5.20')", "def at_least(*, v):\n    return Version(sglang.__version__) >= Version(v)"),
    "helper of two steps": ("at_least('0.5.20')", "def current():\n    return parse(sglang.__version__)\ndef at_least(v):\n    mine = current()\n    return mine >= parse(v)"),
    "helper with ints": ("at_least(0, 5, 20)", "def at_least(*parts):\n    return Version(sglang.__version__).release >= tuple(parts)"),
    "helper with early returns": ("at_least('0.5.20')", "def at_least(v):\n    if Version(sglang.__version__) < Version(v):\n        return False\n    return True"),
    "helper with try": ("has_new()", "def has_new():\n    try:\n        import sglang.srt.new\n    except ImportError:\n        return False\n    return True"),
    "helper with else": ("has_new()", "def has_new():\n    try:\n        from sglang.srt.moved import name_new\n    except Exception:\n        return False\n    else:\n        return True"),
    "cached helper": ("at_least('0.5.20')", "@functools.lru_cache(maxsize=None)\ndef at_least(v):\n    return Version(sglang.__version__) >= Version(v)"),
    "cached helper, plain": ("current() >= (0, 5, 20)", "@functools.cache\ndef current():\n    return Version(sglang.__version__).release"),
    "lambda": ("at_least('0.5.20')", "at_least = lambda v: Version(sglang.__version__) >= Version(v)"),
    "flag of a try": ("HAS", "try:\n    from sglang.srt.new import x\n    HAS = True\nexcept ImportError:\n    HAS = False"),
    "flag before a try": ("HAS", "HAS = False\ntry:\n    import sglang.srt.new\nexcept ImportError:\n    pass\nelse:\n    HAS = True"),
    "name or None": ("maybe is not None", "try:\n    from sglang.srt.moved import name_new as maybe\nexcept ImportError:\n    maybe = None"),
    "name or None, plain": ("maybe", "try:\n    from sglang.srt.moved import name_new as maybe\nexcept (ImportError, AttributeError):\n    maybe = None"),
    "flag under suppress": ("HAS", "HAS = False\nwith suppress(ImportError):\n    import sglang.srt.new\n    HAS = True"),
    "class of flags": ("Compat.GE", "class Compat:\n    GE = Version(sglang.__version__) >= Version('0.5.20')"),
    "static method": ("Compat.at_least('0.5.20')", "class Compat:\n    @staticmethod\n    def at_least(v):\n        return Version(sglang.__version__) >= Version(v)"),
    "object": ("Compat().ge", "class Compat:\n    def __init__(self):\n        self.ge = Version(sglang.__version__) >= Version('0.5.20')"),
    "property": ("compat.ge", "class Compat:\n    @property\n    def ge(self):\n        return hasattr(moved, 'name_new')\ncompat = Compat()"),
    "comparison of parts": ("(major, minor, micro) >= (0, 5, 20)", "major, minor, micro = (int(one) for one in sglang.__version__.split('.'))"),
    "helper with a loop": ("at_least('0.5.20')", "def at_least(v):\n    for one, other in zip(sglang.__version__.split('.'), v.split('.')):\n        if int(one) != int(other):\n            return int(one) > int(other)\n    return True"),
    "helper with a name": ("has('name_new')", "def has(name, module=moved):\n    return hasattr(module, name)"),
    "partial": ("at_least('0.5.20')", "def compare(v, w):\n    return Version(v) >= Version(w)\ndef at_least(w):\n    return compare(sglang.__version__, w)"),
}  # fmt: skip

GUARDS: dict[str, str] = {
    **{name: _test(condition) for name, condition in _CONDITIONS.items()},
    **{name: _test(condition, more) for name, (condition, more) in _BEFORE.items()},
    "cached global": "_V = None\ndef current():\n    global _V\n    if _V is None:\n        _V = Version(sglang.__version__)\n    return _V\ndef register():\n    if current() >= Version('0.5.20'):\n        NEW",
    "functools.partial": "def compare(v, w): return Version(v) >= Version(w)\nat_least = functools.partial(compare, sglang.__version__)\ndef register():\n    if at_least('0.5.20'):\n        NEW",
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass Compat:\n    ge: bool = False\ncompat = Compat(ge=hasattr(moved, 'name_new'))\ndef register():\n    if compat.ge:\n        NEW",
    "NamedTuple": "class Compat(typing.NamedTuple):\n    ge: bool\ncompat = Compat(hasattr(moved, 'name_new'))\ndef register():\n    if compat.ge:\n        NEW",
    "closure": "def register():\n    found = hasattr(moved, 'name_new')\n    def go():\n        if found:\n            NEW\n    go()",
    "number": "V = int(sglang.__version__.split('.')[2])\ndef register():\n    if V >= 20:\n        NEW",
    "list of texts": "def register():\n    if sglang.__version__.split('.') >= ['0', '5', '20']:\n        pass\n    if hasattr(moved, 'name_new'):\n        NEW",
    "parts of a spec": "def register():\n    if (spec := find_spec('sglang.srt.new')) and spec.loader:\n        NEW",
    "the error kept": "def register():\n    try:\n        import sglang.srt.new as found\n    except ImportError as error:\n        found, kept = None, error\n    if found is None:\n        return\n    NEW",
    "class body": "class Parts:\n    if hasattr(moved, 'name_new'):\n        NEW\n    else:\n        found = None\ndef register(): ...",
    "if and elif": "def register():\n    if Version(sglang.__version__) >= Version('1'):\n        import nothing\n    elif hasattr(moved, 'name_new'):\n        NEW\n    else:\n        OLD",
    "early return": "def register():\n    if Version(sglang.__version__) < Version('0.5.20'):\n        OLD\n        return\n    NEW",
    "early return of a value": "def register():\n    if not hasattr(moved, 'name_new'):\n        return None\n    NEW",
    "early continue": "def register():\n    for one in ('a', 'b'):\n        if not hasattr(moved, 'name_new'):\n            continue\n        NEW",
    "break": "def register():\n    for one in ('a', 'b'):\n        if not hasattr(moved, 'name_new'):\n            break\n        NEW",
    "suppress": "def register():\n    with contextlib.suppress(ImportError, AttributeError, KeyError):\n        NEW",
    "suppress of a tuple": "ERRORS = (ImportError, AttributeError, KeyError)\ndef register():\n    with suppress(*ERRORS):\n        NEW",
    "suppress, all": "def register():\n    with suppress(Exception):\n        NEW",
    "except Exception": "def register():\n    try:\n        NEW\n    except Exception:\n        OLD",
    "except two": "def register():\n    try:\n        NEW\n    except (ImportError, AttributeError, KeyError):\n        pass",
    "bare except": "def register():\n    try:\n        NEW\n    except:\n        OLD",
    "BaseException": "def register():\n    try:\n        NEW\n    except BaseException as error:\n        print(error)",
    "except a constant": "ERRORS = (ImportError, AttributeError, LookupError)\ndef register():\n    try:\n        NEW\n    except ERRORS:\n        pass",
    "several handlers": "def register():\n    try:\n        NEW\n    except ImportError:\n        pass\n    except (AttributeError, KeyError):\n        pass",
    "try and else": "def register():\n    try:\n        moved.name_new\n    except AttributeError:\n        OLD\n    else:\n        NEW",
    "finally that returns": "def register():\n    try:\n        NEW\n    finally:\n        return",
    "outer try": "def register():\n    try:\n        try:\n            NEW\n        except ZeroDivisionError:\n            pass\n    except (ImportError, AttributeError, KeyError):\n        pass",
    "raised on to an outer try": "def register():\n    try:\n        try:\n            NEW\n        except (ImportError, AttributeError, KeyError) as error:\n            raise RuntimeError('no') from error\n    except RuntimeError:\n        pass",
    "try around the call": "def more():\n    NEW\ndef register():\n    try:\n        more()\n    except Exception:\n        pass",
    "if around the call": "def more():\n    NEW\ndef register():\n    if hasattr(moved, 'name_new'):\n        more()",
    "if around the method": "class Parts:\n    def _more(self):\n        NEW\n    def all(self):\n        if hasattr(moved, 'name_new'):\n            self._more()\ndef register():\n    Parts().all()",
    "if around a class": "def register():\n    if hasattr(moved, 'ClassNew'):\n        class Mine(moved.ClassNew):\n            def one(self):\n                NEW\n        Mine().one()",
    "return in the handler": "def register():\n    try:\n        import sglang.srt.new\n    except ImportError:\n        return\n    NEW",
    "conditional call": "def new():\n    NEW\ndef register():\n    new() if hasattr(moved, 'name_new') else None",
    "and": "def new():\n    NEW\n    return True\ndef register():\n    hasattr(moved, 'name_new') and new()",
    "chosen function": "def new():\n    NEW\ndef old():\n    OLD\nchosen = new if hasattr(moved, 'name_new') else old\ndef register():\n    chosen()",
    "definition under a condition": "if hasattr(moved, 'name_new'):\n    def new():\n        NEW\nelse:\n    def new():\n        OLD\ndef register():\n    new()",
    "TYPE_CHECKING": "if TYPE_CHECKING:\n    from sglang.srt.nothing import Nothing\ndef register():\n    if typing.TYPE_CHECKING:\n        NEW",
    "sys.modules": "def register():\n    if sys.modules.get('sglang.srt.new') is not None:\n        NEW",
    "decorator of the plugin": "def since(v):\n    def around(f):\n        if Version(sglang.__version__) < Version(v):\n            return lambda: None\n        return f\n    return around\n@since('0.5.20')\ndef new():\n    NEW\ndef register():\n    new()",
    "wrapping decorator": "def guarded(f):\n    @functools.wraps(f)\n    def inner(*args):\n        try:\n            return f(*args)\n        except (ImportError, AttributeError, KeyError):\n            return None\n    return inner\n@guarded\ndef new():\n    NEW\ndef register():\n    new()",
    "assert in a try": "def register():\n    try:\n        assert hasattr(moved, 'name_new')\n        NEW\n    except AssertionError:\n        OLD",
    "raise in a try": "def register():\n    try:\n        if not hasattr(moved, 'name_new'):\n            raise RuntimeError('older')\n        NEW\n    except RuntimeError:\n        OLD",
    "while": "def register():\n    while hasattr(moved, 'name_new'):\n        NEW\n        break",
    "wrong parent of find_spec": "def register():\n    try:\n        found = find_spec('sglang.nothing.new')\n    except ModuleNotFoundError:\n        found = None\n    if found:\n        NEW",
}  # fmt: skip

UNGUARDED: dict[str, str] = {
    "nullcontext": "def register():\n    with contextlib.nullcontext():\n        NEW",
    "warnings": "import warnings\ndef register():\n    with warnings.catch_warnings():\n        NEW",
    "nothing": "def register():\n    NEW",
    "a wrong class": "def register():\n    try:\n        NEW\n    except ZeroDivisionError:\n        pass",
    "suppress of a wrong class": "def register():\n    with suppress(OSError):\n        NEW",
    "raised again": "def register():\n    try:\n        NEW\n    except Exception:\n        raise",
    "raised as another": "def register():\n    try:\n        NEW\n    except Exception as error:\n        raise RuntimeError('not there') from error",
    "exit": "def register():\n    try:\n        NEW\n    except Exception:\n        sys.exit(3)",
    "finally": "def register():\n    try:\n        NEW\n    finally:\n        print('done')",
    "else of the try": "def register():\n    try:\n        import sglang.srt.moved\n    except ImportError:\n        return\n    else:\n        NEW",
    "a condition of something else": "def register():\n    if hasattr(moved, 'same'):\n        NEW",
    "a wrong release": "def register():\n    if Version(sglang.__version__) >= Version('0.5.10'):\n        NEW",
    "a string that sorts wrongly": "def register():\n    if sglang.__version__ >= '0.5.10':\n        NEW",
    "a constant condition": "DEBUG = True\ndef register():\n    if DEBUG:\n        NEW",
    "a function of the plugin": "def more():\n    NEW\ndef register():\n    more()",
    "a method": "class Parts:\n    def more(self):\n        NEW\ndef register():\n    Parts().more()",
    "an own context manager": "@contextmanager\ndef timed():\n    yield\ndef register():\n    with timed():\n        NEW",
    "an own decorator": "def traced(f):\n    def inner():\n        return f()\n    return inner\n@traced\ndef new():\n    NEW\ndef register():\n    new()",
    "an exception of its own": "class Mine(Exception): ...\ndef register():\n    try:\n        NEW\n    except Mine:\n        pass",
    "the module itself": "try:\n    pass\nexcept ImportError:\n    pass\nNEW\ndef register(): ...",
    "a fallback that fails too": "def register():\n    try:\n        from sglang.srt import nothing\n    except ImportError:\n        NEW",
    "a lock": "import threading\nLOCK = threading.Lock()\ndef register():\n    with LOCK:\n        NEW",
    "a for with else": "def register():\n    for one in (1, 2):\n        pass\n    else:\n        NEW",
    "a match of something else": "import os\ndef register():\n    match os.name:\n        case 'nt':\n            return\n        case _:\n            NEW",
    "the wrong branch": "def register():\n    if hasattr(moved, 'name_old'):\n        NEW\n    else:\n        OLD",
}  # fmt: skip

UNCLEAR: dict[str, str] = {
    "regular expression": "def register():\n    if tuple(int(one) for one in re.findall(r'\\d+', sglang.__version__)[:3]) >= (0, 5, 20):\n        NEW",
    "regular expression on a part": "def register():\n    if int(re.sub(r'\\D.*', '', sglang.__version__.split('.')[2])) >= 20:\n        NEW",
    "compiled regular expression": "PARTS = re.compile(r'(\\d+).(\\d+).(\\d+)')\ndef register():\n    if int(PARTS.match(sglang.__version__)[3]) >= 20:\n        NEW",
    "distribution": "def register():\n    if Version(importlib.metadata.distribution('sglang').version) >= Version('0.5.20'):\n        NEW",
    "specifier": "def register():\n    if SpecifierSet('>=0.5.20').contains(sglang.__version__):\n        NEW",
    "specifier, in": "def register():\n    if Version(sglang.__version__) in SpecifierSet('>=0.5.20'):\n        NEW",
    "match": "def register():\n    match hasattr(moved, 'name_new'):\n        case True:\n            NEW\n        case False:\n            OLD",
    "match of a version": "def register():\n    match [int(one) for one in sglang.__version__.split('.')]:\n        case [0, 5, micro] if micro < 20:\n            OLD\n        case _:\n            NEW",
    "match that returns": "def register():\n    match Version(sglang.__version__).release:\n        case (0, 5, micro) if micro < 20:\n            return\n    NEW",
    "match with a guard": "import os\ndef register():\n    match os.name:\n        case 'posix' if hasattr(moved, 'name_new'):\n            NEW",
    "match with a guard that returns": "import os\ndef register():\n    match os.name:\n        case 'posix' if not hasattr(moved, 'name_new'):\n            return\n    NEW",
    "match that chooses": "def register():\n    match hasattr(moved, 'name_new'):\n        case True:\n            chosen = True\n        case _:\n            chosen = False\n    if chosen:\n        NEW",
    "match in a helper": "def at_least():\n    match Version(sglang.__version__).release:\n        case (0, 5, micro) if micro >= 20:\n            return True\n        case (0, 5, _):\n            return False\n    return True\ndef register():\n    if at_least():\n        NEW",
    "context manager of the plugin": "@contextmanager\ndef guarded():\n    try:\n        yield\n    except (ImportError, AttributeError, KeyError):\n        pass\ndef register():\n    with guarded():\n        NEW",
    "context manager around suppress": "@contextmanager\ndef guarded():\n    with suppress(Exception):\n        yield\ndef register():\n    with guarded():\n        NEW",
    "LooseVersion": "from distutils.version import LooseVersion\ndef register():\n    if LooseVersion(sglang.__version__) >= LooseVersion('0.5.20'):\n        NEW",
    "TorchVersion": "from torch.torch_version import TorchVersion\ndef register():\n    if TorchVersion(sglang.__version__) >= '0.5.20':\n        NEW",
    "pkgutil": "import pkgutil\ndef register():\n    if any(one.name == 'new' for one in pkgutil.iter_modules(sglang.srt.__path__)):\n        NEW",
    "ExitStack": "def register():\n    with contextlib.ExitStack() as stack:\n        stack.enter_context(suppress(ImportError))\n        NEW",
    "getfullargspec": "def register():\n    if 'more' in inspect.getfullargspec(moved.same).args:\n        NEW",
    "Enum": "import enum\nclass Compat(enum.Enum):\n    GE = hasattr(moved, 'name_new')\ndef register():\n    if Compat.GE.value:\n        NEW",
    "an attribute that is set later": "class Compat:\n    ge = False\ndef look():\n    Compat.ge = hasattr(moved, 'name_new')\ndef register():\n    if Compat.ge:\n        NEW",
    "table": "def new():\n    NEW\ndef old():\n    OLD\nTABLE = {True: new, False: old}\ndef register():\n    TABLE[hasattr(moved, 'name_new')]()",
    "a variable that a function sets": "ON = False\ndef on():\n    global ON\n    ON = True\ndef register():\n    if ON:\n        NEW",
    "an answer of the host": "def register():\n    if moved.same():\n        NEW",
    "another distribution": "import vendor_compat\ndef register():\n    if vendor_compat.at_least('0.5.20'):\n        NEW",
    "a decorator of another distribution": "import vendor_compat\n@vendor_compat.since('0.5.20')\ndef new():\n    NEW\ndef register():\n    new()",
    "a context manager of another distribution": "import vendor_compat\ndef register():\n    with vendor_compat.guarded():\n        NEW",
    "a context manager that answers": "class Guarded:\n    def __enter__(self): ...\n    def __exit__(self, kind, *rest):\n        return kind is not None\ndef register():\n    with Guarded():\n        NEW",
    "hasattr of an object": "def register(server_args=None):\n    if hasattr(server_args, 'field_new'):\n        NEW\ndef more(server_args):\n    register(server_args)",
}  # fmt: skip


CALLED_BY_HOST: dict[str, str] = {
    "attribute of self": "class Parts:\n    def __init__(self):\n        self._ge = Version(sglang.__version__) >= Version('0.5.20')\n    def init_backend(self):\n        if self._ge:\n            NEW",
    "cached property": "class Parts:\n    @functools.cached_property\n    def ge(self):\n        return hasattr(moved, 'name_new')\n    def init_backend(self):\n        if self.ge:\n            NEW",
    "attribute of the class": "class Parts:\n    GE = hasattr(moved, 'name_new')\n    def init_backend(self):\n        if self.GE:\n            NEW\n    @classmethod\n    def of_class(cls):\n        if cls.GE:\n            NEW",
    "private method": "class Parts:\n    def init_backend(self):\n        if hasattr(moved, 'name_new'):\n            self._more()\n    def _more(self):\n        NEW",
    "async function": "async def serve():\n    if hasattr(moved, 'name_new'):\n        NEW",
    "assert": "def serve():\n    assert Version(sglang.__version__) >= Version('0.5.20')\n    NEW",
    "raise": "def serve():\n    if Version(sglang.__version__) < Version('0.5.20'):\n        raise RuntimeError('older')\n    NEW",
}  # fmt: skip


def plugin_source(guard: str, new: str, old: str) -> str:
    """The plugin with its statements written in, at the indentation of their place."""

    def written(match: re.Match[str]) -> str:
        use = new if match[2] == "NEW" else old
        return "\n".join(match[1] + line for line in use.split("\n"))

    return f"{_HEAD}{_CONSTANTS}" + re.sub(r"(?m)^( *)(NEW|OLD)$", written, guard) + "\n"
