"""`-k EXPRESSION`: words that an id must have, with `and`, `or`, `not` and parentheses, as pytest reads them."""

from __future__ import annotations

import ast
import re

__all__ = ["Expression"]

_WORD = re.compile(r"[^\s()]+")
_GRAMMAR = (ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Name, ast.Load)


class Expression:
    """A word fits where it is a part of the id, in upper or lower case. Raises ValueError for what is no expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[str] = []
        try:  # with a name for each word it is an expression of Python
            tree = ast.parse(_WORD.sub(self._name, " ".join(text.split())), mode="eval")
            if not all(isinstance(node, _GRAMMAR) for node in ast.walk(tree)):
                raise SyntaxError("two words without and, or, not between them")
        except (SyntaxError, RecursionError, MemoryError) as error:
            why = getattr(error, "msg", None) or "it is nested too deep"
            form = "words of ids with and, or, not and parentheses"
            raise ValueError(f"-k {text!r} is no expression: {why}; it takes {form}") from None
        self._code = compile(tree, "-k", "eval")

    def __str__(self) -> str:
        return self._text

    def fits(self, name: str) -> bool:
        words = {f"word_{at}": word in name.lower() for at, word in enumerate(self._words)}
        return bool(eval(self._code, {"__builtins__": {}}, words))  # names, and, or, not: see _GRAMMAR

    def _name(self, word: re.Match[str]) -> str:
        if word[0] in ("and", "or", "not"):
            return word[0]
        self._words.append(word[0].lower())
        return f"word_{len(self._words) - 1}"
