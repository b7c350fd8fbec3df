"""What the scope reader says a module binds, against what running a generated module of the kind really binds."""

from __future__ import annotations

import ast
import textwrap
import types

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sglang_platform.devtools.source.reading import read_class, read_module
from sglang_platform.devtools.source.scope import Scope

NAMES = st.sampled_from(["a", "b", "c", "d"])

SURE = [
    "{x} = 1",
    "{x} = {y} = 1",
    "({x}, *{y}) = 1, 2, 3",
    "def {x}({y}): {z} = 1",
    "class {x}:\n    {y} = 1",
    "import os as {x}",
    "from os import path as {x}",
    "{x}: int",
    "{x}: int = 1",
    "[{x} for {x} in (1, 2)]",
    "lambda {x}: {y}",
    "with open('/dev/null') as {x}:\n    {y} = 1",
    "try:\n    1 / 0\nexcept ZeroDivisionError as {z}_error:\n    pass",
    "try:\n    pass\nfinally:\n    {x} = 1",
    "for {x} in (1, 2):\n    {y} = {x}",
    "for {x}, {y} in [(1, 2), (3, 4)]:\n    pass\nelse:\n    {z} = 1",
    "for {x} in ('{y}', '{z}'):\n    globals()[{x}] = 1",
    "for {x} in ('{y}', '{z}'):\n    globals()[f'make_{{{x}}}'] = 1",
    "globals().update({x}=1, {y}=2)",
    "globals().update({{'{x}': 1}})",
    "from typing import TYPE_CHECKING as TYPE_CHECKING\nif TYPE_CHECKING:\n    {x} = 1\nelse:\n    {y} = 1",
    "import typing\nif not typing.TYPE_CHECKING:\n    {x} = 1\nelse:\n    {y} = 1",
    "if False and unknown:\n    {x} = 1",
    "{x} = 1\ndel {x}",
    "{x} = {y}_more = 1\ndel {x}, {y}_more",
]
PERHAPS = [
    "if len('{x}') == 1:\n    {x} = 1\nelse:\n    {y} = 1",
    "if len('{x}') == 2:\n    {x} = 1\nelif ({z} := 1):\n    {y} = 1",
    "[{x} := one for one in (1, 2)]",
    "while True:\n    {x} = 1\n    break\nelse:\n    {y} = 1",
    "try:\n    from no_such_module import {x}\nexcept ImportError:\n    class {x}: ...",
    "try:\n    from no_such_module import {x}\nexcept ImportError:\n    {y} = None",
    "try:\n    from os import path as {x}\nexcept ImportError as {y}:\n    {x} = None\nelse:\n    {z} = 1",
    "match (1, [2, 3]):\n    case (int() as {x}, [{y}, *{z}]):\n        pass",
    "match {{'k': 1, 'l': 2}}:\n    case {{'k': {x}, **{y}}} if {x} == 1:\n        {z} = 1\n    case _:\n        pass",
    "def make():\n    global {x}\n    {x} = 1\nmake()",
    "for {x} in range(0):\n    {y} = 1",
    "from contextlib import suppress as suppress\nwith suppress(KeyError):\n    {{}}[1]\n    {y} = 1",
    "for {x} in (1, 2):\n    if {x} == 1:\n        continue\n    {y} = 1",
    "try:\n    del {x}\nexcept NameError:\n    {y} = 1",
]


def programs(templates: list[str]) -> st.SearchStrategy[str]:
    one = st.builds(
        lambda template, x, y, z: template.format(x=x, y=y, z=z),
        st.sampled_from(templates),
        NAMES,
        NAMES,
        NAMES,
    )
    return st.lists(one, min_size=1, max_size=6).map("\n".join)


def run(source: str) -> set[str]:
    """The names that running the module binds."""
    module = types.ModuleType("made")
    try:
        code = compile(source, "made.py", "exec")
    except SyntaxError:
        assume(False)  # a name that a pattern or a `global` statement has twice
    exec(code, vars(module))
    return {name for name in vars(module) if not name.startswith("__")}


def read(source: str) -> Scope:
    return read_module(ast.parse(source), "")


@settings(max_examples=400, deadline=None)
@given(source=programs(SURE))
def test_what_surely_runs_is_told_name_by_name(source: str) -> None:
    scope = read(source)
    assert not scope.is_open
    assert {name for name in scope.names if not name.startswith("__")} == run(source)


@settings(max_examples=400, deadline=None)
@given(source=programs(SURE + PERHAPS))
def test_no_name_that_a_module_binds_is_silently_absent(source: str) -> None:
    scope = read(source)
    assert run(source) <= {*scope.names, *scope.maybe}


IN_A_CLASS = [
    one for one in SURE if "globals" not in one and "TYPE_CHECKING" not in one and "[{x} for" not in one
]


@settings(max_examples=200, deadline=None)
@given(body=programs(IN_A_CLASS))
def test_what_a_class_body_binds_is_told(body: str) -> None:
    source = f"class Made:\n{textwrap.indent(body, '    ')}"
    space: dict[str, type] = {}
    exec(compile(source, "made.py", "exec"), space)
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    bound = {name for name in vars(space["Made"]) if not name.startswith("__")}
    assert set(read_class(node, "").names) == bound
