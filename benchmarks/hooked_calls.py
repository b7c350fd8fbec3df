"""The contenders for a hooked call: the same hooks on the same targets by each framework, and written by hand.

Every contender gets a module of its own with fresh targets. Hooks do nothing, so what is timed is the way to them.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

__all__ = ["ANY_ARGUMENTS", "DEPTHS", "FLOOR", "SCENARIOS", "TYPES", "Case", "cases", "contenders"]

Function = Callable[..., Any]
TYPES = ("BEFORE", "AFTER", "AROUND", "REPLACE")
DEPTHS = (1, 5)
_MADE_HERE = "<hooked_calls>"
FLOOR = "floor"
ANY_ARGUMENTS = "any arguments"


class Scenario(NamedTuple):
    """How a target is called, and how its hooks take the arguments."""

    title: str
    method: bool
    arguments: str
    any_arguments: bool
    """Whether the hooks are written with ``*args, **kwargs``."""


SCENARIOS = (
    Scenario("function, by position", False, "1, 2", False),
    Scenario("method, by position", True, "1, 2", False),
    Scenario("function, by name", False, "1, b=2", True),
)


class Case(NamedTuple):
    scenario: Scenario
    type: str
    depth: int

    @property
    def name(self) -> str:
        """Of the target, in its module or class."""
        return f"{self.type.lower()}_{self.depth}_{SCENARIOS.index(self.scenario)}"

    @property
    def path(self) -> str:
        return f"Engine.{self.name}" if self.scenario.method else self.name

    def hooks(self) -> list[Function]:
        """Hooks of this case that do nothing, each a function of its own."""
        parameters, arguments, first = "a, b=0", "a, b", "a"
        if self.scenario.any_arguments:
            parameters, arguments, first = "*args, **kwargs", "*args, **kwargs", "args[0]"
        elif self.scenario.method:
            parameters, arguments = f"self, {parameters}", f"self, {arguments}"
        text = {
            "BEFORE": f"def hook({parameters}): return None",
            "AFTER": f"def hook(result, {parameters}): return None",
            "AROUND": f"def hook(original, {parameters}): return original({arguments})",
            "REPLACE": f"def hook({parameters}): return {first}",
        }[self.type]
        return [_made(text, "hook") for _ in range(self.depth)]


def cases() -> Iterator[Case]:
    for scenario in SCENARIOS:
        for type_ in TYPES:
            for depth in DEPTHS if type_ != "REPLACE" else DEPTHS[:1]:
                yield Case(scenario, type_, depth)


def contenders(folder: Path) -> dict[str, dict[Case, tuple[str, dict[str, Any]]]]:
    """By contender and case: the statement that makes the hooked call, and its names. Checked to run all hooks."""
    makers: dict[str, Callable[[ModuleType, Case], Function | None]] = {
        "unhooked": lambda module, case: None,
        FLOOR: _by_hand,
        ANY_ARGUMENTS: _by_hand_for_any_arguments,
        "set in place": _set_in_place,
        "sglang_platform": _sglang_platform,
        "SGLang": _sglang,
        "wrapt": _wrapt,
        "pluggy": _pluggy,
    }
    found: dict[str, dict[Case, tuple[str, dict[str, Any]]]] = {}
    for contender, make in makers.items():
        module = _targets(folder, f"targets_{contender}")
        found[contender] = {}
        for case in cases():
            if not _applies(contender, case):
                continue
            call = make(module, case)
            if call is None:
                call = getattr(module.Engine() if case.scenario.method else module, case.name)
            arguments = "a=1, b=2" if contender == "pluggy" else case.scenario.arguments
            names: dict[str, Any] = {"call": call}
            statement = f"call({arguments})"
            if case.scenario.method:
                names, statement = {"engine": module.Engine()}, f"engine.{case.name}({arguments})"
            expected = 0 if contender == "unhooked" else case.depth
            _check(statement, names, expected, f"{contender}: {case}")
            found[contender][case] = (statement, names)
    return found


def _applies(contender: str, case: Case) -> bool:
    if contender == "pluggy":
        return not case.scenario.method and case.type != "REPLACE"
    return contender != "set in place" or case.type == "REPLACE"


def _targets(folder: Path, name: str) -> ModuleType:
    functions = [case.name for case in cases() if not case.scenario.method]
    methods = [case.name for case in cases() if case.scenario.method]
    lines = [f"def {function}(a, b=0):\n    return a\n" for function in functions]
    lines += [
        "class Engine:",
        *(f"    def {method}(self, a, b=0):\n        return a\n" for method in methods),
    ]
    (folder / f"{name}.py").write_text("\n".join(lines))
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


def _check(statement: str, names: dict[str, Any], expected: int, what: str) -> None:
    """Run the call once and see that each hook was entered and the result is the target's."""
    entered: set[int] = set()

    def watch(frame: Any, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name == "hook" and code.co_filename in (_MADE_HERE, __file__):
            entered.add(id(frame))
            kept.append(frame)

    kept: list[Any] = []  # else a later frame could have the id of one that is gone
    sys.setprofile(watch)
    try:
        result = eval(statement, names)
    finally:
        sys.setprofile(None)
    if result != 1 or len(entered) != expected:
        raise AssertionError(f"{what}: {len(entered)} hooks ran, the result is {result!r}")


# By hand, without a framework.


def _by_hand(module: ModuleType, case: Case) -> None:
    """The floor: one frame with the very parameters of its target; AROUND is the partial that it is made of."""
    scenario = case.scenario
    own = "self, a" if scenario.method else "a"
    given = f"{own}, b=b" if scenario.any_arguments else f"{own}, b"

    def call(name: str, first: str = "") -> str:
        return f"{name}({first}{given})"

    if case.type == "AROUND" and not scenario.method:
        _, target, hooks = _parts(module, case)
        setattr(module, case.name, _partials(target, hooks))
    else:
        _put(module, case, f"{own}, b=0", call, f"{own}, b = bind(*value[0], **value[1])")


def _by_hand_for_any_arguments(module: ModuleType, case: Case) -> None:
    """One frame that fits any target and hands on the arguments as they came."""

    def call(name: str, first: str = "") -> str:
        return f"{name}({first}*args, **kwargs) if kwargs else {name}({first}*args)"

    _put(module, case, "*args, **kwargs", call, "args, kwargs = value")


def _put(module: ModuleType, case: Case, parameters: str, call: Callable[..., str], change: str) -> None:
    """Put a frame in the target's place: `call` writes a call, `change` takes over the arguments in `value`."""
    owner, target, hooks = _parts(module, case)
    names = {"target": target, "bind": _bind_method if case.scenario.method else _bind}
    names |= {f"hook_{i}": hook for i, hook in enumerate(hooks)}
    lines = [f"def frame({parameters}):"]
    if case.type == "BEFORE":
        for i in reversed(range(case.depth)):
            lines += [f"    value = {call(f'hook_{i}')}", "    if value is not None:", f"        {change}"]
        lines += [f"    return {call('target')}"]
    elif case.type == "AFTER":
        lines += [f"    result = {call('target')}"]
        for i in range(case.depth):
            lines += [f"    value = {call(f'hook_{i}', 'result, ')}"]
            lines += ["    if value is not None:", "        result = value"]
        lines += ["    return result"]
    elif case.type == "AROUND":
        names["inner"] = _partials(target, hooks[:-1])
        lines += [f"    return {call(f'hook_{case.depth - 1}', 'inner, ')}"]
    else:
        lines += [f"    return {call('hook_0')}"]
    setattr(owner, case.name, _made("\n".join(lines), "frame", **names))


def _bind(a: Any, b: Any = 0) -> tuple[Any, ...]:
    return a, b


def _bind_method(self: Any, a: Any, b: Any = 0) -> tuple[Any, ...]:
    return self, a, b


def _partials(target: Function, hooks: list[Function]) -> Function:
    return functools.reduce(lambda inner, hook: functools.partial(hook, inner), hooks, target)


def _set_in_place(module: ModuleType, case: Case) -> None:
    """A replacement without anything around it: no other hook could come later without finding all its holders."""
    owner, _, hooks = _parts(module, case)
    setattr(owner, case.name, hooks[0])


def _parts(module: ModuleType, case: Case) -> tuple[Any, Function, list[Function]]:
    owner = module.Engine if case.scenario.method else module
    return owner, getattr(owner, case.name), case.hooks()


def _made(text: str, name: str, **names: Any) -> Function:
    exec(compile(text, _MADE_HERE, "exec"), names)
    function: Function = names[name]
    return function


def _sglang_platform(module: ModuleType, case: Case) -> None:
    from sglang_platform.core import HookRegistry, HookType

    for hook in case.hooks():
        HookRegistry.register(f"{module.__name__}:{case.path}", hook, HookType[case.type])
    HookRegistry.apply_hooks()


def _sglang(module: ModuleType, case: Case) -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for hook in case.hooks():
        HookRegistry.register(f"{module.__name__}.{case.path}", hook, HookType[case.type])
    HookRegistry.apply_hooks()


def _wrapt(module: ModuleType, case: Case) -> None:
    """wrapt knows wrappers only; BEFORE and AFTER are written as one, which finds `self` beside the arguments."""
    import wrapt

    method = case.scenario.method
    for one in case.hooks():
        wrapt.wrap_function_wrapper(module, case.path, _wrapt_wrapper(case.type, one, method))


def _wrapt_wrapper(type_: str, one: Function, method: bool) -> Function:
    def before(wrapped: Function, instance: Any, args: Any, kwargs: Any) -> Any:
        value = one(instance, *args, **kwargs) if method else one(*args, **kwargs)
        if value is not None:
            args, kwargs = value
        return wrapped(*args, **kwargs)

    def after(wrapped: Function, instance: Any, args: Any, kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        value = one(result, instance, *args, **kwargs) if method else one(result, *args, **kwargs)
        return result if value is None else value

    def hook(wrapped: Function, instance: Any, args: Any, kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    def replacement(wrapped: Function, instance: Any, args: Any, kwargs: Any) -> Any:
        return one(instance, *args, **kwargs) if method else one(*args, **kwargs)

    return {"BEFORE": before, "AFTER": after, "AROUND": hook, "REPLACE": replacement}[type_]


def _pluggy(module: ModuleType, case: Case) -> Function:
    """The nearest shape: the target is one implementation; BEFORE are others that run first, the rest are wrappers."""
    import pluggy

    specify, implement = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")
    manager = pluggy.PluginManager("bench")

    class Specification:
        @specify(firstresult=True)
        def call(self, a: Any, b: Any) -> Any: ...

    manager.add_hookspecs(Specification)
    target: Function = getattr(module, case.name)
    target.__defaults__ = None  # type: ignore[attr-defined]  # pluggy passes no argument that has a default
    made = [_pluggy_before() if case.type == "BEFORE" else _pluggy_around() for _ in range(case.depth)]
    for position, function in enumerate([target, *made]):
        plugin = ModuleType(f"plugin_{position}")
        wrapper = position > 0 and case.type != "BEFORE"
        plugin.call = implement(function, wrapper=wrapper, specname="call")  # type: ignore[attr-defined]
        manager.register(plugin)
    call: Function = manager.hook.call
    return call


def _pluggy_before() -> Function:
    def hook(a: Any, b: Any) -> Any:
        return None

    return hook


def _pluggy_around() -> Function:
    def hook(a: Any, b: Any) -> Any:
        return (yield)

    return hook
