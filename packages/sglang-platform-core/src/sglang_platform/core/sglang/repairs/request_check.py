"""Checks a client's request against the model and the types of its fields, before it is sent to a worker.

All checks raise ValueError, which SGLang answers with a 400 (over HTTP) or raises to the caller (in an `Engine`).
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import ValidationError, convert

from sglang_platform.core.sglang.repairs.request_limits import (
    INTERNAL,
    LARGEST_BIAS,
    Batch,
    RequestFields,
    Sampling,
)

__all__ = [
    "MALFORMED",
    "Model",
    "check_batch",
    "check_request",
    "check_taken_apart",
    "malformed_as_value_error",
]

_Fields = TypeVar("_Fields", Batch, RequestFields, Sampling)

MALFORMED = (TypeError, AttributeError, LookupError, OverflowError, AssertionError, RecursionError, re.error)
"""The exceptions that SGLang's code raises on a malformed request, beside ValueError."""


class Model(NamedTuple):
    """The properties of the model that requests are checked against."""

    vocabulary: int
    context: int
    """The largest number of tokens, prompt and answer together."""

    hidden_size: int
    takes_media: bool
    """Whether the model accepts images, video or audio."""


@contextlib.contextmanager
def malformed_as_value_error() -> Iterator[None]:
    """Convert the exceptions that SGLang's code raises on a malformed request to ValueError: the client's error."""
    try:
        yield
    except MALFORMED as error:
        raise ValueError(f"malformed request: {type(error).__name__}: {error}") from error


def check_batch(request: Any) -> None:
    """Check a batch before SGLang splits it: sampling parameters must be mappings within the limit on answers.

    Raises ValueError.
    """
    given = request.sampling_params
    several = given if isinstance(given, list) else [given]
    if given == [] or not all(one is None or isinstance(one, Mapping) for one in several):
        raise ValueError("sampling_params must be a mapping, or a list of one mapping for each prompt")
    for one in several:
        if one is not None:
            _converted(dict(one), Batch, "sampling_params")
    embeds = getattr(request, "input_embeds", None)
    if embeds is not None and not _is_nested(embeds):
        raise ValueError("input_embeds must be a list of rows of numbers, or a list of those")


def check_taken_apart(request: Any) -> None:
    """Check a split batch: each of its requests must have every field, and a single request one id.

    Raises ValueError, or LookupError if a list is shorter than the batch.
    """
    if not request.is_single:
        for place in range(request.batch_size):
            request[place]
    elif not isinstance(request.rid, str):
        raise ValueError("rid must be a string for a single request")


def check_request(request: Any, token_ids: Sequence[int] | None, model: Model) -> None:
    """Check one tokenized request of a batch. Raises ValueError if a worker could not serve it."""
    media = request.contains_mm_input()
    if media and not model.takes_media:
        raise ValueError("this model takes no images, video or audio")
    if token_ids is not None and not media:  # placeholder ids of media may lie outside the vocabulary
        _check_tokens(token_ids, model.vocabulary)
        if not token_ids and not _continues(request):
            raise ValueError("the prompt has no tokens")
    fields = _converted(request, RequestFields, "the request")
    _check_embeds(request, model)
    _check_logprobs(fields, model.vocabulary)
    _check_positions(request, fields, 0 if token_ids is None else len(token_ids))
    _check_sampling(request.sampling_params, model.vocabulary)


def _converted(given: Any, kind: type[_Fields], where: str) -> _Fields:
    """The fields of `given`, an object or a dict, that `kind` has. Raises ValueError with the path of a wrong one."""
    try:
        return convert(given, kind, from_attributes=True)
    except ValidationError as error:
        raise ValueError(f"{where}: {error}") from error


def _check_tokens(ids: Sequence[int], vocabulary: int) -> None:
    if not set(map(type, ids)) <= {int}:
        raise ValueError("input_ids must be a flat list of token ids")
    if ids and not (min(ids) >= 0 and max(ids) < vocabulary):
        first = next(one for one in ids if not 0 <= one < vocabulary)
        raise ValueError(f"token id {first} is not in the vocabulary: ids are 0 to {vocabulary - 1}")


def _check_embeds(request: Any, model: Model) -> None:
    rows = getattr(request, "input_embeds", None)
    if rows is not None:
        if not isinstance(rows, list) or not rows or not all(isinstance(row, list) for row in rows):
            raise ValueError("input_embeds must be a list of rows, one for each token")
        wrong = next((len(row) for row in rows if len(row) != model.hidden_size), None)
        if wrong is not None:
            raise ValueError(f"a row of input_embeds has {wrong} numbers; this model has {model.hidden_size}")
        if not all(set(map(type, row)) <= {int, float} and _all_finite(row) for row in rows):
            raise ValueError("input_embeds must be finite numbers")
        if len(rows) >= model.context:
            raise ValueError(f"input_embeds has {len(rows)} rows; the context is {model.context} tokens")
    overrides = getattr(request, "positional_embed_overrides", None)
    if isinstance(
        overrides, str | int | float | list | dict
    ):  # it must be a Python object, which JSON cannot express
        raise ValueError("positional_embed_overrides cannot be given in JSON")


def _all_finite(row: list[float]) -> bool:
    total = sum(map(abs, row))
    return total < float("inf")  # also False for a NaN


def _check_logprobs(fields: RequestFields, vocabulary: int) -> None:
    asked = fields.top_logprobs_num
    if asked is not None and asked > vocabulary:
        raise ValueError(f"top_logprobs_num is {asked}; the vocabulary has {vocabulary} tokens")
    wrong = next((one for one in fields.token_ids_logprob or () if not 0 <= one < vocabulary), None)
    if wrong is not None:
        raise ValueError(f"token_ids_logprob has {wrong}, which is not in the vocabulary of {vocabulary}")


def _check_positions(request: Any, fields: RequestFields, tokens: int) -> None:
    """Check the prompt positions that a worker would use as indices."""
    for name in ("multi_item_delimiter_indices", "token_indices_to_pool"):
        places = getattr(fields, name)
        if places and not (min(places) >= 0 and max(places) < tokens):
            raise ValueError(f"{name} must be places in the prompt of {tokens} tokens")
    start = fields.logprob_start_len
    rows = getattr(request, "input_embeds", None)
    length = tokens if rows is None else len(rows)
    if start is None or not fields.return_logprob or _continues(request):
        return
    if start > length:
        raise ValueError(f"logprob_start_len is {start}; the prompt has {length} tokens")


def _continues(request: Any) -> bool:
    """Whether the prompt continues a session, which supplies its beginning."""
    return bool(getattr(request, "session_params", None) or getattr(request, "session_id", None))


def _check_sampling(given: Mapping[str, Any], vocabulary: int) -> None:
    # Convert only exact floats; a subclass such as numpy.float64 is one to SGLang.
    plain = {name: float(value) if isinstance(value, float) else value for name, value in given.items()}
    fields = _converted(plain, Sampling, "sampling_params")
    if fields.top_k == 0:
        raise ValueError("sampling_params: top_k must be -1 or at least 1")
    for token, bias in (fields.logit_bias or {}).items():
        if not 0 <= int(token) < vocabulary:
            raise ValueError(
                f"logit_bias has the token {token}, which is not in the vocabulary of {vocabulary}"
            )
        # Minus infinity bans a token; any other non-finite value makes the probabilities NaN.
        number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not number or not (bias == -math.inf or abs(bias) <= LARGEST_BIAS):
            raise ValueError("sampling_params: logit_bias must map token ids to finite numbers")
    mine = INTERNAL.intersection(given)
    if mine:
        raise ValueError(f"sampling_params has no {', '.join(sorted(mine))}")
    if fields.min_new_tokens:
        # Workers suppress stop tokens by writing to their logits, indexed by id.
        stops = [t for t in fields.stop_token_ids or () if t is not None]
        outside = next((t for t in stops if not 0 <= t < vocabulary), None)
        if outside is not None:
            raise ValueError(
                f"stop_token_ids has {outside}, which is not in the vocabulary of {vocabulary}, and min_new_tokens "
                "needs it to be"
            )


def _is_nested(rows: Any) -> bool:
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], list) and bool(rows[0])
