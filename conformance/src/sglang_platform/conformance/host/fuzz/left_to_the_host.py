"""Answers of SGLang that should be a 4xx and are not, where no one place could make them one. The server lives."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["LEFT_TO_THE_HOST", "Left", "is_left"]


class Left(NamedTuple):
    """One kind of answer."""

    path: str
    """The endpoint's beginning."""

    status: int
    """0: the connection is closed without an answer."""

    words: str
    """What the answer says."""

    place: str
    """Where SGLang makes it, in the newest release."""

    why: str


LEFT_TO_THE_HOST: tuple[Left, ...] = (
    Left(
        "/", 500, "Grammar accept_token failed", "managers/scheduler_components/batch_result_processor.py",
        "a grammar that admits no token at all; the same words would tell of a mask that is wrong",
    ),
    Left(
        "/api/", 0, "IncompleteRead", "entrypoints/ollama/serving.py",
        "a stream whose request is refused after its headers were sent, by a function inside a method",
    ),
    Left(
        "/v1/detokenize", 500, "Internal server error during detokenization",
        "entrypoints/openai/serving_tokenize.py",
        "a token id outside of 32 bits; the endpoint answers its own exceptions",
    ),
)  # fmt: skip


def is_left(path: str, status: int, words: str) -> bool:
    """Whether an answer is one of these."""
    return any(
        path.startswith(one.path) and status == one.status and one.words in words for one in LEFT_TO_THE_HOST
    )
