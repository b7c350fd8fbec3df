"""`torch.compile` traces through hooked calls: right results, and no graph break but what a hook itself needs."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from compiled_regions import HOOKS, MODES, TARGETS, Compiled, compiled, copied, ended, wanted
from onion_model import nested

from sglang_platform.core.counters import counter, snapshot
from sglang_platform.core.errors import HookError
from sglang_platform.core.hooks.registry import RETURN_NONE, HookRegistry, HookType

TRACED = Compiled(right=True, breaks=0)
ONE = torch.ones(2)


@pytest.fixture
def regions(host) -> ModuleType:
    torch._dynamo.reset()
    host.bring("regions")
    return host.load("regions")


def hook(path: str, hooks: str) -> None:
    for type_, one in HOOKS[hooks]:
        HookRegistry.register(f"regions:{path}", one, type_)
    HookRegistry.apply_hooks()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("hooks", HOOKS)
def test_a_hooked_call_is_traced(regions, hooks, kind, mode):
    path, region = TARGETS[kind]
    hook(path, hooks)
    call = getattr(regions, region)
    expected = wanted(kind, hooks)
    assert torch.equal(call(ONE), expected)
    assert ended(compiled(call, mode), expected) == TRACED


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("hooks", HOOKS)
def test_hooks_that_come_and_go_after_compiling(regions, hooks, kind):
    path, region = TARGETS[kind]
    plain = getattr(regions, region)(ONE)
    call = compiled(getattr(regions, region), "fullgraph")
    assert ended(call, plain) == TRACED
    hook(path, hooks)
    assert ended(call, wanted(kind, hooks)) == TRACED
    HookRegistry.register(f"regions:{path}", lambda result, *a, **k: result * 2, HookType.AFTER)
    assert ended(call, getattr(regions, region)(ONE)) == TRACED, "a hook more on a hooked target"
    HookRegistry.reset()
    assert ended(call, plain) == TRACED


def breaks_before(*args, **kwargs):
    torch._dynamo.graph_break()


def breaks_after(result, *args, **kwargs):
    torch._dynamo.graph_break()
    return result * 2


def breaks_around(original, *args, **kwargs):
    result = original(*args, **kwargs)
    torch._dynamo.graph_break()
    return result * 3


BREAKING = {
    HookType.BEFORE: breaks_before,
    HookType.AFTER: breaks_after,
    HookType.AROUND: breaks_around,
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("types", [[one] for one in BREAKING] + [list(BREAKING)], ids=str)
@pytest.mark.parametrize("target", ["function", "breaking"])
def test_a_hook_that_breaks_the_graph_costs_its_own_breaks(regions, types, target):
    """No more than where the hooks are written by hand around the function, one function each."""
    plan, region = [(one, BREAKING[one]) for one in types], getattr(regions, f"of_{target}")
    original = getattr(regions, target)
    setattr(regions, target, nested(original, plan))
    expected = region(ONE)
    by_hand = ended(compiled(region, "compiled"), expected)
    setattr(regions, target, original)
    del original
    for type_, one in plan:
        HookRegistry.register(f"regions:{target}", one, type_)
    HookRegistry.apply_hooks()
    hooked = ended(compiled(region, "compiled"), expected)
    assert (hooked.right, hooked.error) == (by_hand.right, by_hand.error) == (True, "")
    assert len(plan) <= hooked.breaks <= by_hand.breaks


def test_applying_hooks_again_compiles_nothing_again(regions):
    hook("Engine.method", "a stack of six")
    hook("function", "a stack of six")
    for region in (regions.of_method, regions.of_function):
        call, expected = compiled(region, "fullgraph"), region(ONE)
        assert ended(call, expected) == TRACED
        HookRegistry.apply_hooks()
        with torch.compiler.set_stance("fail_on_recompile"):
            assert ended(call, expected) == TRACED


def test_more_layers_than_a_fitted_frame_can_have(regions):
    for _ in range(12):  # more than 20 in all
        for type_, one in (*HOOKS["BEFORE"], *HOOKS["AFTER, changes the result"]):
            HookRegistry.register("regions:function", copied(one), type_)
    HookRegistry.apply_hooks()
    assert ended(compiled(regions.of_function, "fullgraph"), regions.of_function(ONE)) == TRACED


def test_a_result_that_becomes_none(regions):
    HookRegistry.register("regions:function", lambda *a, **k: RETURN_NONE, HookType.AFTER)
    HookRegistry.apply_hooks()

    def region(x):
        return x + (1 if regions.function(x) is None else 2)

    assert ended(compiled(region, "fullgraph"), ONE + 1) == TRACED


def test_what_a_before_hook_may_not_return_is_said_from_compiled_code(regions):
    HookRegistry.register("regions:function", lambda *a, **k: 5, HookType.BEFORE)
    HookRegistry.apply_hooks()
    with pytest.raises(HookError, match="returned 5"):
        compiled(regions.of_function, "compiled")(ONE)


def test_a_hooked_function_is_compiled_itself(regions):
    hook("function", "a stack of six")
    assert ended(compiled(regions.function, "fullgraph"), regions.function(ONE)) == TRACED


@pytest.mark.sample(2)
@pytest.mark.parametrize("mark", [torch.compile, torch.compiler.disable], ids=["compile", "disable"])
def test_a_hook_on_a_function_that_torch_knows(regions, mark):
    regions.function = mark(regions.function)
    hook("function", "AROUND")
    expected = wanted("function", "AROUND")
    assert torch.equal(regions.of_function(ONE), expected)
    assert ended(compiled(regions.of_function, "compiled"), expected).right


def test_counters_in_hooks_leave_the_graph_whole(regions):
    counted = counter("compiled.hooks")
    HookRegistry.register("regions:function", lambda *a, **k: counted.add(), HookType.BEFORE)
    HookRegistry.apply_hooks()
    expected = regions.of_function(ONE)
    before = snapshot()["compiled.hooks"]
    call = compiled(regions.of_function, "fullgraph")
    assert ended(call, expected) == TRACED
    assert ended(call, expected) == TRACED
    assert snapshot()["compiled.hooks"] > before


def test_by_inductor(regions):
    hook("Layer.forward", "a stack of six")
    expected = regions.of_submodule(ONE)
    torch._dynamo.reset()
    assert ended(torch.compile(regions.of_submodule, fullgraph=True), expected) == TRACED
