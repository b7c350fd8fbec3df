"""Wrappers around quantisation methods: order by priority alone, and every one seen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_platform.core.registries import QuantMethodWrapper, is_wrapped, quant, register_quant_wrapper
from sglang_platform.core.registries.registry import RegistryError


class Method:
    """A method as the host has it."""

    def __init__(self) -> None:
        self.scale = 1.0

    def apply(self, layer: Any, x: float) -> float:
        return x * self.scale


def wrapper_class(id: str) -> type[QuantMethodWrapper]:
    return type(f"Wrapper_{id}", (QuantMethodWrapper,), {"_quant_wrapper_id": id})


def always(layer: Any, server_args: Any) -> dict[str, Any]:
    return {}


def factory_of(cls: type[QuantMethodWrapper]) -> Any:
    return lambda layer, method, ctx: cls(method)


def chain(method: Any) -> list[str]:
    """Ids from the outermost inwards."""
    ids = []
    while getattr(type(method), "_quant_wrapper_id", None):
        ids.append(type(method)._quant_wrapper_id)
        method = method.inner
    return ids


def test_lower_priority_is_innermost_whatever_the_order_of_registration() -> None:
    register_quant_wrapper("logging", always, factory_of(wrapper_class("logging")), 20)
    register_quant_wrapper("int8", always, factory_of(wrapper_class("int8")), 10)
    wrapped = quant.wrap(object(), Method(), None)
    assert chain(wrapped) == ["logging", "int8"]
    assert is_wrapped(wrapped, "int8")
    assert is_wrapped(wrapped, "logging")
    assert not is_wrapped(wrapped, "fp4")
    assert not is_wrapped(Method(), "int8")


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdefgh"), st.integers(-3, 3), st.booleans()), unique_by=lambda t: t[0]
    ),
    st.randoms(),
)
def test_any_set_of_wrappers_nests_by_priority_then_id(
    rows: list[tuple[str, int, bool]], random: Any
) -> None:
    quant.wrappers.clear()
    shuffled = list(rows)
    random.shuffle(shuffled)
    for id, priority, wants in shuffled:
        register_quant_wrapper(
            id,
            lambda layer, args, wants=wants: wants and {},
            factory_of(wrapper_class(id)),
            priority,
        )
    expected = [id for id, priority, wants in sorted(rows, key=lambda r: (r[1], r[0]), reverse=True) if wants]
    method = Method()
    wrapped = quant.wrap(object(), method, None)
    assert chain(wrapped) == expected
    assert quant.wrap(object(), wrapped, None) is wrapped  # none wraps twice
    for id, _, wants in rows:
        assert is_wrapped(wrapped, id) == wants


def test_the_predicate_sees_layer_and_arguments_and_its_context_reaches_the_factory() -> None:
    seen: list[Any] = []

    def predicate(layer: Any, server_args: Any) -> Any:
        seen.append((layer, server_args))
        return {"bits": 8} if layer == "experts" else None

    def factory(layer: Any, method: Any, ctx: Any) -> Any:
        seen.append((layer, ctx))
        return wrapper_class("int8")(method)

    register_quant_wrapper("int8", predicate, factory)
    method = Method()
    assert quant.wrap("attention", method, "args") is method
    assert quant.wrap("experts", method, "args") is not method
    assert seen == [("attention", "args"), ("experts", "args"), ("experts", {"bits": 8})]


def test_a_wrapper_passes_for_what_it_wraps() -> None:
    inner = Method()
    wrapped = wrapper_class("outer")(wrapper_class("inner")(inner))
    assert isinstance(wrapped, Method)
    assert isinstance(wrapped, QuantMethodWrapper)
    assert wrapped.__class__ is Method
    assert wrapped.apply(None, 2.0) == 2.0
    wrapped.scale = 3.0  # state of the inner method stays there
    assert inner.scale == 3.0
    assert wrapped.apply(None, 2.0) == 6.0
    wrapped.calls = 1
    assert wrapped.calls == 1
    assert not hasattr(inner, "calls")


def test_a_wrapped_torch_method_stays_a_submodule() -> None:
    import torch

    class ModuleMethod(torch.nn.Module):
        pass

    layer = torch.nn.Module()
    layer.quant_method = ModuleMethod()
    register_quant_wrapper("int8", always, factory_of(wrapper_class("int8")))
    layer.quant_method = quant.wrap(layer, layer.quant_method, None)
    assert is_wrapped(layer.quant_method, "int8")
    assert [name for name, _ in layer.named_modules()] == ["", "quant_method"]
    assert layer.state_dict() == {}


def test_a_factory_that_forgets_the_method_is_refused() -> None:
    register_quant_wrapper("int8", always, lambda layer, method, ctx: Method())
    with pytest.raises(RegistryError, match="answered Method"):
        quant.wrap(object(), Method(), None)
    quant.wrappers.clear()
    register_quant_wrapper("int8", always, lambda layer, method, ctx: wrapper_class("int4")(method))
    with pytest.raises(RegistryError, match="_quant_wrapper_id"):
        quant.wrap(object(), Method(), None)


def test_one_id_one_part() -> None:
    factory = factory_of(wrapper_class("int8"))
    register_quant_wrapper("int8", always, factory, 10)
    register_quant_wrapper("int8", always, factory, 10)
    assert len(quant.wrappers) == 1
    with pytest.raises(RegistryError, match="two quant wrappers are registered as 'int8'"):
        register_quant_wrapper("int8", always, factory, 11)
    with pytest.raises(RegistryError, match="non-empty str"):
        register_quant_wrapper("", always, factory)
