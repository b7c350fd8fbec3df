"""changed: the hook that a plugin's source registers does not fit its target."""

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
from sglang_platform.devtools.source.signatures import signature_of, what_differs
from sglang_platform.devtools.source.tree import SourceTree


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
    def shape(text: str) -> tuple[list[object], list[object]]:
        """The ordered parameters, and the keyword-only ones, which have no order."""
        made: dict[str, object] = {}
        exec(f"def f({text}): pass", made)
        found = [
            (one.name, one.kind, one.default is one.empty)
            for one in inspect.signature(made["f"]).parameters.values()
        ]
        by_name = [one for one in found if one[1] is inspect.Parameter.KEYWORD_ONLY]
        return [one for one in found if one not in by_name], sorted(by_name, key=str)

    old, new = (signature_of(ast.parse(f"def f({text}): pass").body[0].args) for text in (before, after))
    assert (what_differs(old, new) is not None) is (shape(before) != shape(after))
