"""`-k EXPRESSION`: words that an id must have, with `and`, `or`, `not` and parentheses, as pytest reads them."""

from __future__ import annotations

import re

__all__ = ["Expression"]

_TOKEN = re.compile(r"[()]|[^\s()]+")


class Expression:
    """A word fits where it is a part of the id, in upper or lower case. Raises ValueError for what is no expression."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        self._tree = self._either()
        if self._at < len(self._tokens):
            raise self._wrong("is not expected there")

    def __str__(self) -> str:
        return self._text

    def fits(self, name: str) -> bool:
        return _holds(self._tree, name.lower())

    # expression: both ("or" both)*    both: one ("and" one)*    one: "not" one | "(" expression ")" | word

    def _either(self) -> _Tree:
        found = [self._both()]
        while self._taken("or"):
            found.append(self._both())
        return ("or", found)

    def _both(self) -> _Tree:
        found = [self._one()]
        while self._taken("and"):
            found.append(self._one())
        return ("and", found)

    def _one(self) -> _Tree:
        if self._taken("not"):
            return ("not", [self._one()])
        if self._taken("("):
            inner = self._either()
            if not self._taken(")"):
                raise self._wrong("a ) is missing")
            return inner
        if self._at == len(self._tokens) or self._tokens[self._at] in ("and", "or", ")"):
            raise self._wrong("a word of an id must stand there")
        self._at += 1
        return ("word", self._tokens[self._at - 1].lower())

    def _taken(self, token: str) -> bool:
        there = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += there
        return there

    def _wrong(self, why: str) -> ValueError:
        token = repr(self._tokens[self._at]) if self._at < len(self._tokens) else "its end"
        return ValueError(f"-k {self._text!r} is no expression: at {token}, {why}")


_Tree = tuple[str, "list[_Tree] | str"]


def _holds(tree: _Tree, name: str) -> bool:
    kind, inner = tree
    if isinstance(inner, str):
        return inner in name
    if kind == "not":
        return not _holds(inner[0], name)
    return (any if kind == "or" else all)(_holds(one, name) for one in inner)
