"""The names that SGLang knows for an argument (`lora_backend`, `sampling_backend`, ...), read from its source, and
those that plugins registered with it in this process."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from sglang_platform.core.spelling import nearest
from sglang_platform.devtools.source.environment import Environment

__all__ = ["known_names", "names_like"]

_ARGUMENTS = "sglang.srt.server_args"
_GROUPS = "sglang.srt.arg_groups"

_REGISTRIES = {
    "attention_backend": ("sglang.srt.layers.attention.attention_registry", "ATTENTION_BACKENDS"),
    "lora_backend": ("sglang.srt.lora.backend.lora_registry", "LORA_SUPPORTED_BACKENDS"),
    "grammar_backend": ("sglang.srt.constrained.base_grammar_backend", "GRAMMAR_BACKEND_REGISTRY"),
    "quantization": ("sglang.srt.layers.quantization", "BASE_QUANTIZATION_METHODS"),
}
"""By argument: the module and the mapping in which SGLang looks its values up."""


def known_names(argument: str) -> frozenset[str]:
    """The values of `argument`: its choices on the command line and the names in its registry. Empty where the argument
    takes any value, and where SGLang is not installed."""
    choices, constants = _sources()
    module, registry = _REGISTRIES.get(argument, ("", ""))
    constant = f"{argument.upper()}_CHOICES"
    written = _values(choices.get(argument), constants) or _values(constants.get(constant), constants)
    if argument in choices and not written:
        return frozenset()
    live = (_ARGUMENTS, constant), (f"{_GROUPS}.choices", constant), (module, registry)
    for name, attribute in live:
        found = getattr(sys.modules.get(name), attribute, ())
        written |= {one for one in found if isinstance(one, str)}
    return written | _registered(module)


def names_like(wrong: Any, names: Iterable[str]) -> str:
    """The end of a message on a name that is not among `names`."""
    longer = (name for name in sorted(names) if name.startswith(f"{wrong}_"))
    meant = nearest(str(wrong), names) or next(longer, None)
    return f"; did you mean {meant!r}?" if meant else f"; the names are {', '.join(sorted(names))}"


@cache
def _sources() -> tuple[dict[str, ast.expr], dict[str, ast.expr]]:
    """By argument, the expression of its choices; by name, constants of the same modules."""
    choices: dict[str, ast.expr | None] = {}
    constants: dict[str, ast.expr] = {}
    environment = Environment()
    fields = environment.children(f"{_GROUPS}.fields")
    for name in (_ARGUMENTS, f"{_GROUPS}.choices", *(f"{_GROUPS}.fields.{one}" for one in fields)):
        source = environment.module(name)
        for node in ast.walk(source.tree) if source is not None else ():
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                constants.setdefault(node.targets[0].id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                choices[node.target.id] = _choices(node.annotation)
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                argument = str(node.args[0].value).removeprefix("--").replace("-", "_")
                choices[argument] = _choices(node)
    return {argument: one for argument, one in choices.items() if one is not None}, constants


def _choices(expression: ast.expr) -> ast.expr | None:
    calls = (one for one in ast.walk(expression) if isinstance(one, ast.Call))
    keywords = (one for call in calls for one in call.keywords)
    return next((one.value for one in keywords if one.arg == "choices"), None)


def _values(expression: ast.expr | None, constants: dict[str, ast.expr]) -> frozenset[str]:
    """The texts of a list or set; empty where an element is not written out."""
    parts: list[ast.expr] = []
    if isinstance(expression, ast.Constant):
        return frozenset({expression.value} if isinstance(expression.value, str) else ())
    if isinstance(expression, ast.Name) and expression.id in constants:
        parts = [constants[expression.id]]
    elif isinstance(expression, ast.BinOp):
        parts = [expression.left, expression.right]
    elif isinstance(expression, ast.Call):
        parts = expression.args
    elif isinstance(expression, ast.List | ast.Tuple | ast.Set):
        parts = expression.elts
    values = [_values(part, constants) for part in parts]
    return frozenset().union(*values) if all(values) else frozenset()


@cache
def _registered(module: str) -> frozenset[str]:
    """The names given to decorators in a module of SGLang."""
    source = Environment().module(module) if module else None
    return frozenset(
        one.args[0].value
        for node in (ast.walk(source.tree) if source is not None else ())
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for one in node.decorator_list
        if isinstance(one, ast.Call)
        and one.args
        and isinstance(one.args[0], ast.Constant)
        and isinstance(one.args[0].value, str)
    )
