"""A frame with the target's own parameters is used where no hook can tell, and then nobody can."""

from __future__ import annotations

import inspect
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onion_model import nested

from sglang_platform.core.hooks.call import frames
from sglang_platform.core.hooks.registry import HookRegistry, HookType

SIGNATURES = [
    "",
    "a",
    "a, b=0",
    "a, b=0, c=None",
    "a, /, b=0",
    "a, *, k",
    "a, b=0, *, k=1",
    "a, *, k, other=LIST",
    "value, result=0",
    "inner, hook_0=0",
    "a, b=0, *args",
    "a, b=0, **kwargs",
]
HOOK_SIGNATURES = ["the same", "any", "other default", "more"]


def call_arguments(signature: str) -> list[str]:
    """Calls that the signature takes, by position and by name, with and without what has a default."""
    made = {
        "": [""],
        "a": ["1", "a=1"],
        "a, b=0": ["1", "1, 2", "1, b=2", "a=1", "b=2, a=1"],
        "a, b=0, c=None": ["1", "1, 2", "1, 2, 3", "1, c=3", "c=3, a=1", "1, b=2, c=3"],
        "a, /, b=0": ["1", "1, 2", "1, b=2"],
        "a, *, k": ["1, k=2", "k=2, a=1"],
        "a, b=0, *, k=1": ["1", "1, 2", "1, k=3", "1, 2, k=3", "a=1, k=3, b=2"],
        "a, *, k, other=LIST": ["1, k=2", "1, k=2, other=3"],
        "value, result=0": ["1", "1, 2", "value=1, result=2"],
        "inner, hook_0=0": ["1", "1, 2", "inner=1, hook_0=2"],
        "a, b=0, *args": ["1", "1, 2", "1, 2, 3"],
        "a, b=0, **kwargs": ["1", "1, 2", "1, b=2, z=3"],
    }
    return made[signature]


def parameters_of(signature: str) -> inspect.Signature:
    names: dict = {"LIST": LIST}
    exec(f"def f({signature}): pass", names)
    return inspect.signature(names["f"])


LIST: list = []


def make(text: str, log: list, **names):
    namespace = {"log": log, "LIST": LIST, **names}
    exec(text, namespace)
    return namespace["made"]


def seen(signature: str) -> str:
    """An expression for all parameters of a signature."""
    found = parameters_of(signature).parameters.values()
    return "{" + ", ".join(f"{one.name!r}: {one.name}" for one in found) + "}"


def handed_on(signature: str) -> str:
    parts = []
    for one in parameters_of(signature).parameters.values():
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        parts.append(f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else f"{star}{one.name}")
    return ", ".join(parts)


def make_hook(index, type_, style, action, signature, log):
    """A hook that logs all that it can see of a call."""
    if style == "other default":
        own = signature.replace("b=0", "b='its own'").replace("k=1", "k='its own'")
    elif style == "more":
        own = f"{signature}, more=0" if signature and "*" not in signature else signature
    else:
        own = signature
    if style == "any" or "args" in own:
        own, shown, on = "*args, **kwargs", "(args, dict(kwargs))", "*args, **kwargs"
    else:
        shown, on = seen(own), handed_on(own)
        on = on.replace(", more", "")
    extra = {HookType.AFTER: "result_, ", HookType.AROUND: "original_, "}.get(type_, "")
    note = f"log.append(({index}, {shown}))"
    if type_ is HookType.BEFORE:
        body = f"return {'CHANGED' if action else 'None'}"
    elif type_ is HookType.AFTER:
        body = f"return {f'({index}, result_)' if action else 'None'}"
    elif type_ is HookType.AROUND:
        body = f"return {f'({index}, original_({on}))' if action else f'original_({on})'}"
    else:
        body = f"return ('replaced', {index})"
    return make(f"def made({extra}{own}):\n    {note}\n    {body}", log, CHANGED=None), shown


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_hooks_on_random_signatures_see_what_a_plain_onion_shows_them(host, data):
    signature = data.draw(st.sampled_from(SIGNATURES), "signature")
    log: list = []
    module = _module(
        host, f"def target({signature}):\n    log.append({seen(signature)})\n    return 'made'\n", log
    )
    plain, layers = module.target, []
    types = [HookType.BEFORE, HookType.AFTER, HookType.AROUND]
    for index in range(data.draw(st.integers(1, 5), "depth")):
        type_ = data.draw(st.sampled_from(types))
        style = data.draw(st.sampled_from(HOOK_SIGNATURES))
        action = data.draw(st.booleans())
        hook, _ = make_hook(index, type_, style, action, signature, log)
        if type_ is HookType.BEFORE and action:
            hook.__globals__["CHANGED"] = _other_call(signature)
        layers.append((type_, hook))
        HookRegistry.register("frames_target:target", hook, type_)
    HookRegistry.apply_hooks()
    try:
        model = nested(plain, layers)
        for arguments in call_arguments(signature):
            expected = (eval(f"f({arguments})", {"f": model}), list(log))
            log.clear()
            assert (eval(f"f({arguments})", {"f": module.target}), list(log)) == expected, arguments
            log.clear()
        assert inspect.signature(module.target) == inspect.signature(plain)
        assert _refused(module.target) == _refused(model)
    finally:
        HookRegistry.reset()
    assert module.target is plain


def _refused(function) -> bool:
    try:
        function(unknown=1)
    except TypeError:
        return True
    return False


def _other_call(signature: str) -> tuple:
    """Other arguments, in another form than any of the calls: by name where that is possible."""
    found = parameters_of(signature).parameters.values()
    by_name = {
        one.name: f"changed {one.name}"
        for one in found
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    return tuple("changed" for one in found if one.kind is one.POSITIONAL_ONLY), by_name


def _module(host, source: str, log: list):
    host.forget()
    host.write(frames_target=source.replace("other=LIST", "other=None"))
    module = host.load("frames_target")
    module.log = log
    if "other=LIST" in source:
        module.target.__kwdefaults__ = {"other": LIST}
    return module


def test_a_default_that_is_hooked_later_is_reached_in_a_hooked_function_too(host):
    host.write(
        base="def f(x): return x\n",
        user="from base import f\ndef use(x, call=f): return call(x)\n",
    )
    base, user = host.load("base"), host.load("user")
    original = base.f
    HookRegistry.register("user:use", lambda result, x, call=original: None)
    HookRegistry.apply_hooks()
    assert user.use(1) == 1
    HookRegistry.register("base:f", lambda result, x: result + 100)
    HookRegistry.apply_hooks()
    assert user.use(1) == 101
    HookRegistry.reset()
    assert user.use(1) == 1
    assert user.use.__defaults__ == (original,)


def test_the_hand_written_cost_one_frame_for_five_hooks(host):
    """Depth on the stack, as the target sees it: a hook that can tell nothing costs no frame of its own."""
    host.write(deep="import sys\ndef f(a, b=0):\n    return sys._getframe(1).f_back.f_code.co_name\n")
    deep = host.load("deep")
    for _ in range(5):
        HookRegistry.register("deep:f", lambda result, a, b=0: None)
    HookRegistry.apply_hooks()
    assert deep.f.__code__.co_varnames[:2] == ("a", "b")
    assert deep.f(1) == "test_the_hand_written_cost_one_frame_for_five_hooks"


def test_a_missing_argument_names_the_target(host):
    host.write(named="class Engine:\n    def step(self, batch, size=0): return size\n")
    named = host.load("named")
    HookRegistry.register("named:Engine.step", lambda result, self, batch, size=0: None)
    HookRegistry.apply_hooks()
    with pytest.raises(TypeError, match=r"Engine\.step\(\) missing 1 required positional argument: 'batch'"):
        named.Engine().step()


def test_the_frames_that_the_docstring_shows_are_the_ones_that_are_made():
    places = HookType.BEFORE.record.place, HookType.AFTER.record.place
    for lines in (
        frames._general_lines("plain", True, False, tuple((place, False) for place in places)),
        frames._fitted_lines(places, False, "a, b=None", "a, b"),
    ):
        assert textwrap.indent("\n".join(lines), "    ") in frames.__doc__
