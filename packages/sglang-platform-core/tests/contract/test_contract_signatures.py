"""The signature rule against its meaning: every call the contract allows is made on a function with the
override's parameters, and each argument must arrive under its own name or in `*args` and `**kwargs`."""

# Overrides take the contract's parameters, whether they use them or not.

import inspect
import itertools
from inspect import Parameter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_platform.core.contract.signatures import bound_signature, broken_calls, plain_parameters

NAMES = ["a", "b", "c", "d"]
ORDER = [
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
]


@st.composite
def signatures(draw, override):
    kinds = [Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY]
    if override:
        kinds.append(Parameter.POSITIONAL_ONLY)
    names = draw(st.permutations(NAMES).flatmap(lambda ns: st.integers(0, 3).map(lambda n: ns[:n])))
    drawn = sorted(
        ((draw(st.sampled_from(kinds)), name) for name in names), key=lambda kn: ORDER.index(kn[0])
    )
    parameters, defaults_begun = [], False
    for kind, name in drawn:
        optional = draw(st.booleans())
        if kind is not Parameter.KEYWORD_ONLY:
            optional = defaults_begun = defaults_begun or optional
        parameters.append(Parameter(name, kind, default=0 if optional else Parameter.empty))
    if override and draw(st.booleans()):
        parameters.append(Parameter("args", Parameter.VAR_POSITIONAL))
    if override and draw(st.booleans()):
        parameters.append(Parameter("kwargs", Parameter.VAR_KEYWORD))
    return inspect.Signature(sorted(parameters, key=lambda p: ORDER.index(p.kind)))


def allowed_calls(contract):
    places = [p for p in contract.parameters.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    for count in range(len(places) + 1):
        rest = [p for p in contract.parameters.values() if p not in places[:count]]
        required = [p.name for p in rest if p.default is Parameter.empty]
        optional = [p.name for p in rest if p.default is not Parameter.empty]
        for size in range(len(optional) + 1):
            for chosen in itertools.combinations(optional, size):
                yield [p.name for p in places[:count]], [*required, *chosen]


def arrives(override, positional, by_name):
    try:
        bound = override.bind(*positional, **{name: name for name in by_name})
    except TypeError:
        return False
    named = {name: value for name, value in bound.arguments.items() if name not in {"args", "kwargs"}}
    passed = {*positional, *by_name}
    return named == {name: name for name in override.parameters if name in passed}


@settings(max_examples=600, deadline=None)
@given(signatures(override=False), signatures(override=True))
def test_an_override_is_accepted_exactly_if_every_allowed_call_arrives(contract, override):
    takes_all = all(arrives(override, positional, by_name) for positional, by_name in allowed_calls(contract))
    assert (broken_calls(contract, override) == []) == takes_all, broken_calls(contract, override)


@given(signatures(override=False))
def test_a_signature_takes_its_own_calls(contract):
    assert broken_calls(contract, contract) == []


@pytest.mark.parametrize(
    ("override", "problems"),
    [
        (lambda device_id=0: ..., []),
        (lambda device_id=0, extra=None: ..., []),
        (lambda *args, **kwargs: ..., []),
        (lambda: ..., ["lost parameter 'device_id'"]),
        (lambda device=0: ..., ["renames parameter 'device_id' to 'device'"]),
        (lambda device: ..., ["renames parameter 'device_id' to 'device'"]),
        (lambda device_id: ..., ["makes parameter 'device_id' required (the contract's default is 0)"]),
        (lambda device_id=0, *, mode: ..., ["requires a new parameter 'mode'"]),
        (lambda *, device_id=0: ..., ["cannot take 'device_id' by position"]),
        (lambda device_id=0, /: ..., ["cannot take 'device_id' by name"]),
        (lambda **kwargs: ..., ["cannot take 'device_id' by position"]),
        (lambda *args: ..., ["cannot take 'device_id' by name"]),
        (lambda x=0, device_id=0: ..., ["moves parameter 'device_id' from place 1 to 2"]),
    ],
)
def test_each_breakage_has_its_words(override, problems):
    contract = inspect.signature(lambda device_id=0: ...)
    assert broken_calls(contract, inspect.signature(override)) == problems


def test_a_parameter_that_moved_up_is_not_taken_for_a_renaming():
    contract, override = inspect.signature(lambda a, b: ...), inspect.signature(lambda b: ...)
    assert broken_calls(contract, override) == ["lost parameter 'a'", "moves parameter 'b' from place 2 to 1"]


def test_a_signature_is_read_as_callers_see_it():
    class Example:
        def method(self, a): ...

        @classmethod
        def of_class(cls, a): ...

        @staticmethod
        def static(a): ...

    for name in ("method", "of_class", "static"):
        assert plain_parameters(bound_signature(vars(Example)[name], Example)) == ("a",)
    assert plain_parameters(inspect.signature(lambda a, *rest: ...)) is None
