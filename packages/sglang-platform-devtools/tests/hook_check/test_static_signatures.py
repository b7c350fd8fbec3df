"""changed: against an earlier release, and against the hook that a plugin's source registers."""

from __future__ import annotations

import ast
import inspect
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.core.hooks.call.fit import misfit as misfit_of_functions
from sglang_platform.core.hooks.types import HookType
from sglang_platform.devtools.hook_check.check import check
from sglang_platform.devtools.registrations import WantedHook, WrittenHook
from sglang_platform.devtools.source.tree import SourceTree

SINCE = "since host 1 (host-1-py3-none-any.whl) "

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
    "a generator": ("def f(): pass", "def f(): yield 1", "it was a function, and is a generator"),
    "no class any more": ("class f: pass", "def f(): pass", "it was a class, and is a function"),
}


@pytest.mark.parametrize(("before", "after", "why"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_what_differs_from_the_earlier_release_is_told(verdict, before, after, why) -> None:
    caller = "\ndef g(): f()"
    row = verdict("host.mod:f", {"host.mod": after + caller}, since={"host.mod": before + caller})
    assert (row.verdict, row.why, row.is_problem) == ("changed", SINCE + why, True)


KINDS = {
    "a property": (
        "def m(self): pass",
        "@property\n    def m(self): pass",
        "it was a function, and is a property",
    ),
    "a class method": ("def m(self): pass", "@classmethod\n    def m(self): pass", "and is a class method"),
    "a static method": (
        "@classmethod\n    def m(x): pass",
        "@staticmethod\n    def m(x): pass",
        "a static method",
    ),
}


@pytest.mark.parametrize(("before", "after", "why"), KINDS.values(), ids=KINDS)
def test_another_kind_of_method_is_a_change(verdict, before, after, why) -> None:
    text = "class A:\n    {}\ndef g(a: A): a.m()"
    now, then = {"host.mod": text.format(after)}, {"host.mod": text.format(before)}
    row = verdict("host.mod:A.m", now, since=then)
    assert row.verdict == "changed"
    assert why in row.why


ALIKE = {
    "annotations": ("def f(x): pass", "def f(x: int = 1 if True else 2) -> str: pass", "def f(x=1): pass"),
    "the values of defaults": ("def f(x=1): pass", "def f(x=2): pass", None),
    "the body": ("def f(x): pass", "def f(x):\n    return [y for y in x]", None),
    "a generator inside": ("def f(x): pass", "def f(x):\n    def inner(): yield 1\n    return inner()", None),
    "a decorator": ("def f(x): pass", "@traced\ndef f(x): pass", None),
    "a setter": (None, None, None),
}


@pytest.mark.parametrize(("before", "after", "instead"), ALIKE.values(), ids=ALIKE)
def test_what_a_caller_cannot_see_is_no_change(verdict, before, after, instead) -> None:
    if before is None:
        before = "class A:\n    @property\n    def f(self): pass"
        after = before + "\n    @f.setter\n    def f(self, value): pass"
        target = "host.mod:A.f"
    else:
        before, target = instead or before, "host.mod:f"
    caller = "\ndef g(a): f() or a.f or A()"
    row = verdict(target, {"host.mod": after + caller}, since={"host.mod": before + caller})
    assert row.verdict == "exists"


def test_a_class_is_compared_by_its_initializer_wherever_it_is_written(verdict) -> None:
    text = "class B:\n    def __init__(self{}): pass\nclass A(B): pass\ndef g(): A()"
    now, then = {"host.mod": text.format(", size")}, {"host.mod": text.format("")}
    row = verdict("host.mod:A", now, since=then)
    assert (row.verdict, row.why) == ("changed", SINCE + "for __init__, it takes size, which it requires")


def test_a_change_is_seen_through_re_exports_and_moves(verdict) -> None:
    then = {"host.mod": "def f(x): pass\ndef g(): f(1)"}
    now = {"host.mod": "from host.new import f2 as f\ndef g(): f(1)", "host.new": "def f2(x, y): pass"}
    row = verdict("host.mod:f", now, since=then)
    assert (row.verdict, row.defined_at) == ("changed", "host.new:f2")


def test_a_value_in_the_place_of_a_function_is_not_judged(verdict) -> None:
    then = {"host.mod": "def f(x): pass\ndef g(): f(1)"}
    assert (
        verdict("host.mod:f", {"host.mod": "f = TABLE.extend\ndef g(): f(1)"}, since=then).verdict == "exists"
    )


def test_a_target_that_the_earlier_release_lacked_is_noted(verdict) -> None:
    row = verdict("host.mod:f", {"host.mod": "def f(): pass\ndef g(): f()"}, since={"host.mod": ""})
    assert (row.verdict, row.notes) == ("exists", ("host 1 (host-1-py3-none-any.whl) does not have it",))


def test_a_change_is_told_before_a_bypass(verdict) -> None:
    row = verdict("host.mod:f", {"host.mod": "def f(x): pass"}, since={"host.mod": "def f(): pass"})
    assert row.verdict == "changed"


def written(source: str, type_: HookType) -> WrittenHook:
    node = ast.parse(source).body[0]
    if isinstance(node, ast.Expr):
        node = node.value
    return WrittenHook(type_, "hook", node)


FITS = {
    "after": ("def f(x): pass", "def hook(result, x): pass", HookType.AFTER),
    "after with anything": ("def f(x, *, y): pass", "def hook(result, *a, **k): pass", HookType.AFTER),
    "before": ("def f(x): pass", "def hook(x): pass", HookType.BEFORE),
    "around": ("def f(x, *, y=1): pass", "def hook(original, x, *, y=2): pass", HookType.AROUND),
    "replace": ("def f(x): pass", "def hook(x, extra=None): pass", HookType.REPLACE),
    "a lambda": ("def f(x): pass", "lambda result, x: x", HookType.AFTER),
    "async on async": ("async def f(x): pass", "async def hook(original, x): pass", HookType.AROUND),
    "a class for a class": ("class f: pass", "class hook: pass", HookType.REPLACE),
}
MISFITS = {
    "no room": ("def f(x, y): pass", "def hook(result, x): pass", HookType.AFTER, "no place for y"),
    "no room for the result": ("def f(x): pass", "def hook(x): pass", HookType.AFTER, "the result"),
    "a keyword": ("def f(x, *, y): pass", "def hook(x): pass", HookType.BEFORE, "keyword y"),
    "asks for more": ("def f(x): pass", "def hook(x, y): pass", HookType.REPLACE, "requires y"),
    "any keyword": ("def f(**k): pass", "def hook(): pass", HookType.BEFORE, "any keyword"),
    "async on a function": (
        "def f(x): pass",
        "async def hook(x): pass",
        HookType.BEFORE,
        "nobody would await",
    ),
    "a generator": ("def f(x): pass", "def hook(x): yield x", HookType.BEFORE, "would never run"),
    "after on a class": ("class f: pass", "def hook(result): pass", HookType.AFTER, "can only be replaced"),
    "a function for a class": (
        "class f: pass",
        "def hook(): pass",
        HookType.REPLACE,
        "so must be its replacement",
    ),
    "a class that watches": ("def f(): pass", "class hook: pass", HookType.AFTER, "takes the target's place"),
}


@pytest.mark.parametrize(("target", "hook", "type_"), FITS.values(), ids=FITS)
def test_a_hook_that_fits_is_accepted(verdict, target, hook, type_) -> None:
    wanted = WantedHook("host.mod:f", written(hook, type_))
    assert verdict(wanted, {"host.mod": target + "\ndef g(): f()"}).verdict == "exists"


@pytest.mark.parametrize(("target", "hook", "type_", "why"), MISFITS.values(), ids=MISFITS)
def test_a_hook_that_does_not_fit_is_a_change(verdict, target, hook, type_, why) -> None:
    wanted = WantedHook("host.mod:f", written(hook, type_))
    row = verdict(wanted, {"host.mod": target + "\ndef g(): f()"})
    assert row.verdict == "changed"
    assert row.why.startswith("the hook hook does not fit: ")
    assert why in row.why


_FORGETS, _WRAPS = "def hook(x): x + 1", "def hook(original, x): original(x)"
NOTHING = {
    "around": ("def f(x): return x", _WRAPS, HookType.AROUND, True),
    "around, in a coroutine": (
        "async def f(x): return x",
        "async def hook(original, x): await original(x)",
        HookType.AROUND,
        True,
    ),
    "replace": ("def f(x):\n    if x: return 'cpu'", _FORGETS, HookType.REPLACE, True),
    "an object": ("def f(x): return plans.Plan(x)", _WRAPS, HookType.AROUND, True),
    "in a function inside": (
        "def f(x): return [x]",
        "def hook(original, x):\n    def inner(): return 1\n    inner()",
        HookType.AROUND,
        True,
    ),
    "before": ("def f(x): return x", _FORGETS, HookType.BEFORE, False),
    "after": ("def f(x): return x", "def hook(result, x): pass", HookType.AFTER, False),
    "nothing was given": ("def f(x): g()", _WRAPS, HookType.AROUND, False),
    "None was given": ("def f(x): return None", _WRAPS, HookType.AROUND, False),
    "what another gives": ("def f(x): return g(x)", _WRAPS, HookType.AROUND, False),
    "None, and it says so": ("def f(x): return x", "def hook(x): return None", HookType.REPLACE, False),
    "an error": ("def f(x): return x", "def hook(x): raise ValueError(x)", HookType.REPLACE, False),
}


@pytest.mark.parametrize(("target", "hook", "type_", "told"), NOTHING.values(), ids=NOTHING)
def test_a_hook_that_loses_what_its_target_gives_is_told(verdict, target, hook, type_, told) -> None:
    row = verdict(WantedHook("host.mod:f", written(hook, type_)), {"host.mod": target + "\ndef g(): f()"})
    assert ("it gives nothing, and in host" in row.why) is told
    assert row.verdict == ("changed" if told else "exists")


_ONCE = "def hook(original, x):\n    if x: return original(x)\n"
SOME_PATHS = {
    "no last line": (_ONCE, True),
    "the original's is lost": (f"{_ONCE}    original(x + 1)", True),
    "the original's is lost, awaited": (f"async {_ONCE}    await original(x + 1)", True),
    "a branch of two": ("def hook(original, x):\n    if x: return 1\n    else: y = original(x)", True),
    "under a lock": ("def hook(original, x):\n    with x:\n        if x: return original(x)", True),
    "after a loop": ("def hook(original, x):\n    for y in x:\n        return original(y)", True),
    "both branches": ("def hook(original, x):\n    if x: return 1\n    else: return original(x)", False),
    "it raises": (f"{_ONCE}    raise ValueError(x)", False),
    "a call that may raise": (f"{_ONCE}    refuse(x)", False),
    "None, and it says so": (f"{_ONCE}    return None", False),
    "an endless loop": ("def hook(original, x):\n    while True:\n        if x: return original(x)", False),
    "a generator": ("def hook(original, x):\n    if x: return original(x)\n    yield x", False),
}


@pytest.mark.parametrize(("hook", "told"), SOME_PATHS.values(), ids=SOME_PATHS)
def test_a_hook_that_gives_a_value_on_some_paths_only_is_told(verdict, hook, told) -> None:
    wanted = WantedHook("host.mod:f", written(hook, HookType.AROUND))
    asynchronous = "async " * hook.startswith("async ")
    row = verdict(wanted, {"host.mod": f"{asynchronous}def f(x): return [x]\ndef g(): f()"})
    assert ("it gives a value on some paths" in row.why) is told, row


@pytest.mark.parametrize(
    "target", ["if x: return [x]", "return [x] if x else None", "g()", "return", "return None"]
)
def test_where_the_target_may_give_nothing_a_hook_may_too(verdict, target) -> None:
    body = f"def f(x):\n    {target}\ndef g(): f()"
    row = verdict(WantedHook("host.mod:f", written(_ONCE, HookType.AROUND)), {"host.mod": body})
    assert row.verdict == "exists", row


@pytest.mark.parametrize("wrapper", ["", "@classmethod\n    ", "@staticmethod\n    ", "@property\n    "])
def test_a_hook_on_a_method_takes_what_the_method_is_written_with(verdict, wrapper) -> None:
    text = {"host.mod": f"class A:\n    {wrapper}def m(self): pass\ndef g(a: A): a.m"}
    fits = WantedHook("host.mod:A.m", written("def hook(result, self): pass", HookType.AFTER))
    short = WantedHook("host.mod:A.m", written("def hook(): pass", HookType.AFTER))
    assert verdict(fits, text).verdict == "exists"
    assert verdict(short, text).verdict == "changed"


def test_arguments_that_the_hook_names_otherwise_are_noted(verdict) -> None:
    wanted = WantedHook("host.mod:f", written("def hook(result, y): pass", HookType.AFTER))
    row = verdict(wanted, {"host.mod": "def f(x): pass\ndef g(): f(1)"})
    assert (row.verdict, row.notes) == ("exists", ("the hook takes x by position only",))


def test_nothing_of_the_host_or_the_plugin_is_run_for_it(verdict) -> None:
    target = "def f(x: print('target')=print('default')): pass\ndef g(): f()"
    wanted = WantedHook("host.mod:f", written("def hook(x=exit()): pass", HookType.REPLACE))
    assert verdict(wanted, {"host.mod": target}).verdict == "exists"


NAMES = ("a", "b", "c", "d")


@st.composite
def parameters(draw: st.DrawFn, prefix: str = "") -> str:
    count = draw(st.integers(0, 3))
    first_default = draw(st.integers(0, count))
    parts = [f"{NAMES[i]}=1" if i >= first_default else NAMES[i] for i in range(count)]
    if count and draw(st.booleans()):
        parts.insert(draw(st.integers(1, count)), "/")
    more = draw(st.sampled_from(["", "*args", "*"]))
    keywords = [
        f"{name}{draw(st.sampled_from(['', '=2']))}" for name in draw(st.sets(st.sampled_from("xyz")))
    ]
    if more and (more != "*" or keywords):
        parts.append(more)
    elif keywords:
        parts.append("*")
    parts += sorted(keywords)
    if draw(st.booleans()):
        parts.append("**kwargs")
    return ", ".join(([prefix] if prefix else []) + parts)


def static_row(target: str, hook: str, type_: HookType) -> object:
    text = f"def f({target}): pass\ndef g(): f()\n".encode()
    host = SourceTree("host", {"host/mod.py": "host.mod"}, lambda _: text)
    (row,) = check([WantedHook("host.mod:f", written(f"def hook({hook}): pass", type_))], host)
    return row


@settings(max_examples=200, deadline=None)
@given(target=parameters(), hook=parameters(), type_=st.sampled_from(list(HookType)))
def test_the_verdict_is_the_one_that_the_engine_gives_to_the_real_functions(target, hook, type_) -> None:
    made: dict[str, object] = {}
    exec(f"def f({target}): pass\ndef hook({hook}): pass", made)
    functions = SimpleNamespace(**{key: made[key] for key in ("f", "hook")})
    refused = misfit_of_functions(functions.f, functions.hook, type_) is not None
    assert (static_row(target, hook, type_).verdict == "changed") is refused


@settings(max_examples=200, deadline=None)
@given(before=parameters(), after=parameters())
def test_a_difference_is_told_exactly_where_inspect_sees_one(before, after) -> None:
    def shape(text: str) -> list[object]:
        made: dict[str, object] = {}
        exec(f"def f({text}): pass", made)
        found = inspect.signature(made["f"]).parameters.values()
        return [(one.name, one.kind, one.default is one.empty) for one in found]

    def host(text: str) -> SourceTree:
        source = f"def f({text}): pass\ndef g(): f()\n".encode()
        return SourceTree("host", {"host/mod.py": "host.mod"}, lambda _: source)

    (row,) = check([WantedHook("host.mod:f")], host(after), host(before))
    # keyword-only parameters have no order
    by_name = [
        sorted((one for one in shape(text) if one[1] is inspect.Parameter.KEYWORD_ONLY), key=str)
        for text in (before, after)
    ]
    others = [
        [one for one in shape(text) if one[1] is not inspect.Parameter.KEYWORD_ONLY]
        for text in (before, after)
    ]
    same = by_name[0] == by_name[1] and others[0] == others[1]
    assert (row.verdict == "changed") is not same
