"""A hooked coroutine stays a coroutine, a generator a generator, with every value sent, thrown and returned."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from sglang_platform.core.errors import HookSignatureError
from sglang_platform.core.hooks.registry import RETURN_NONE, HookRegistry, HookType


def around(original, *args, **kwargs):
    return original(*args, **kwargs)


def test_coroutine_function_awaits_its_hooks_and_after_sees_the_result(kinds):
    seen = []

    async def before(x, y=2):
        await asyncio.sleep(0)
        return (x * 10,), {"y": y}

    def after(result, *args, **kwargs):
        seen.append(result)
        return result + 1

    async def async_after(result, *args, **kwargs):
        await asyncio.sleep(0)
        return result * 2

    async def async_around(original, *args, **kwargs):
        return await original(*args, **kwargs) + 1000

    module = kinds(
        ("coroutine", before, HookType.BEFORE),
        ("coroutine", after, HookType.AFTER),
        ("coroutine", async_after, HookType.AFTER),
        ("coroutine", around, HookType.AROUND),
        ("coroutine", async_around, HookType.AROUND),
    )
    assert inspect.iscoroutinefunction(module.coroutine)
    assert asyncio.run(module.coroutine(1)) == 26 + 1000
    assert seen == [12]


def test_coroutine_function_replaced_by_a_plain_one(kinds):
    module = kinds(("coroutine", lambda x, y=2: x * y, HookType.REPLACE))
    assert inspect.iscoroutinefunction(module.coroutine)
    assert asyncio.run(module.coroutine(5, y=4)) == 20


def test_the_original_of_an_async_around_is_async_whatever_lies_within(kinds):
    kinds_seen = []

    async def outer(original, *args, **kwargs):
        kinds_seen.append(inspect.iscoroutinefunction(original))
        return await original(*args, **kwargs)

    module = kinds(
        ("coroutine", lambda original, *a, **k: 42, HookType.AROUND),
        ("coroutine", outer, HookType.AROUND),
    )
    assert asyncio.run(module.coroutine(1)) == 42
    assert kinds_seen == [True]


def drain(generator, *sent):
    items, values = [], iter(sent)
    try:
        items.append(next(generator))
        while True:
            items.append(generator.send(next(values, None)))
    except StopIteration as stop:
        return items, stop.value


def test_generator_function_forwards_everything(kinds):
    def after(result, n):
        assert inspect.isgenerator(result)

    module = kinds(
        ("generator", lambda n: ((n + 1,), {}), HookType.BEFORE),
        ("generator", after, HookType.AFTER),
        ("generator", around, HookType.AROUND),
    )
    assert inspect.isgeneratorfunction(module.generator)
    assert drain(module.generator(2), "a", "b") == ([0, 1, 2], ["a", "b", None])
    running = module.generator(1)
    next(running)
    with pytest.raises(KeyError):
        running.throw(KeyError("in"))


def test_after_may_put_another_iterator_in_a_generators_place(kinds):
    module = kinds(("generator", lambda result, n: (i * 10 for i in result), HookType.AFTER))
    assert list(module.generator(3)) == [0, 10, 20]
    HookRegistry.register("kinds:generator", lambda result, n: RETURN_NONE)
    assert list(module.generator(3)) == []


def test_async_generator_function_forwards_everything(kinds):
    closed = []

    async def scenario(module):
        stream = module.async_generator(2)
        items = [await stream.__anext__(), await stream.asend("a"), await stream.asend("b")]
        with pytest.raises(StopAsyncIteration):
            await stream.__anext__()
        stream = module.async_generator(2)
        await stream.__anext__()
        with pytest.raises(KeyError):
            await stream.athrow(KeyError("in"))
        stream = module.async_generator(2)
        await stream.__anext__()
        await stream.aclose()
        return items

    async def watch(original, n):
        try:
            async for item in original(n):
                yield item
        except GeneratorExit:
            closed.append(n)
            raise

    async def before(n):
        await asyncio.sleep(0)
        return (n,), {}

    module = kinds(("async_generator", before, HookType.BEFORE), ("async_generator", around, HookType.AROUND))
    assert inspect.isasyncgenfunction(module.async_generator)
    assert asyncio.run(scenario(module)) == [0, 1, ["a", "b"]]
    HookRegistry.register("kinds:async_generator", watch, HookType.AROUND)

    async def stop_early():
        stream = module.async_generator(3)
        await stream.__anext__()
        await stream.aclose()

    asyncio.run(stop_early())
    assert closed == [3]


@pytest.mark.parametrize("type_", list(HookType))
@pytest.mark.parametrize("target", ["function", "generator", "Class.method"])
def test_async_hooks_on_other_kinds_are_refused(kinds, type_, target):
    async def hook(*args, **kwargs): ...

    with pytest.raises(HookSignatureError, match="async"):
        kinds((target, hook, type_))
