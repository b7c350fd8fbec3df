"""Values of a request's fields: right ones, and those that clients send by mistake or on purpose."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["EDGES", "VOCABULARY", "hostile", "small_answer", "texts", "token_ids"]

VOCABULARY = 1024
"""Of the checkpoint that is asked; ids from here on are wrong."""

EDGES = (
    0,
    -1,
    1,
    2,
    7,
    255,
    1023,
    1024,
    1025,
    4096,
    2**15,
    2**31 - 1,
    2**31,
    2**32,
    -(2**31),
    2**63 - 1,
    2**63,
    -(2**63),
)
_FLOATS = (0.0, -0.0, 0.5, 1.5, -1.5, 1e-9, 1e9, 3.5e38, 1e308, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "",
    "a",
    "0",
    "-1",
    "true",
    "null",
    "\x00",
    "\ud800",
    "é",
    "中文",
    "🙂" * 3,
    "</s>",
    "<s><|user|>",
    "{",
    "(",
    "a" * 300,
)

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(EDGES),
    st.sampled_from(_FLOATS),
    st.sampled_from(_TEXTS),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
)

hostile: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
"""Any JSON value, with those that lie at the edges of number types drawn often; also NaN and infinities, which
Python's reader of JSON takes."""

_right_ids = st.integers(0, VOCABULARY - 1)

_right_prompt = st.one_of(
    st.lists(_right_ids, min_size=1, max_size=40),
    st.lists(_right_ids, min_size=1, max_size=4).map(lambda some: some * 90),
    st.lists(st.lists(_right_ids, min_size=1, max_size=8), min_size=1, max_size=3),
)
_wrong_prompt = st.one_of(
    st.lists(st.one_of(_right_ids, st.sampled_from(EDGES)), max_size=6),
    st.lists(st.lists(_right_ids, max_size=8), max_size=3),
)
token_ids: st.SearchStrategy[Any] = st.sampled_from([_right_prompt] * 9 + [_wrong_prompt]).flatmap(
    lambda one: one
)

_right_text = st.one_of(
    st.text(min_size=1, max_size=60),
    st.sampled_from(["The capital of France is", "def main():\n", "{", "1 2 3 4"]),
    st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=3),
)
texts: st.SearchStrategy[Any] = st.sampled_from([_right_text] * 9 + [st.sampled_from(_TEXTS)]).flatmap(
    lambda one: one
)

small_answer: st.SearchStrategy[Any] = st.integers(0, 8)
"""Tokens to answer with: few, so that thousands of requests take minutes."""
