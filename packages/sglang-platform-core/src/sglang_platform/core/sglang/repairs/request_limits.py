"""The types of the sampling parameters and request fields that workers can serve, for `msgspec.convert`.

An absent parameter or None means SGLang's default. Excluded are values that would crash a worker, on the device or in
Python arithmetic. Older releases of SGLang check almost nothing; the newest leaves these values to the device, whose
errors are asynchronous.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = ["INTERNAL", "LARGEST_BIAS", "MAX_SAMPLES", "Batch", "RequestFields", "Sampling"]

MAX_SAMPLES = 4096
"""The largest number of answers per prompt (`n`). SGLang creates a request for each before it checks for room."""

LARGEST_BIAS = 1e30
"""The largest magnitude in `logit_bias`, far below the largest float32, so that a sum with a logit stays finite."""

_LARGEST = 2**63 - 1

_Whole = Annotated[int, Meta(ge=-_LARGEST - 1, le=_LARGEST)]
_Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
_Positive = Annotated[int, Meta(ge=1, le=_LARGEST)]
_Samples = Annotated[int, Meta(ge=1, le=MAX_SAMPLES)]
_MinusOneOrMore = Annotated[int, Meta(ge=-1, le=_LARGEST)]
_Temperature = Annotated[float, Meta(ge=0, le=1e30)]
_Probability = Annotated[float, Meta(ge=0, le=1)]
_AboveZero = Annotated[float, Meta(gt=0, le=1)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Repetition = Annotated[float, Meta(gt=0, le=2)]
_TokenId = Annotated[str, Meta(pattern=r"^-?\d+$")]


class Batch(Struct):
    """The numbers of answers, which SGLang reads before it splits a batch; an explicit `n` of None would fail there."""

    n: _Samples = 1
    beam_width: _Samples | None = None


class Sampling(Struct):
    """The sampling parameters of one request. `top_k` must not be 0, values of `logit_bias` are checked apart."""

    max_new_tokens: _Count | None = None
    min_new_tokens: _Count | None = None
    n: _Samples | None = None
    beam_width: _Samples | None = None
    temperature: _Temperature | None = None
    top_p: _AboveZero | None = None
    top_k: _MinusOneOrMore | None = None
    min_p: _Probability | None = None
    frequency_penalty: _Penalty | None = None
    presence_penalty: _Penalty | None = None
    repetition_penalty: _Repetition | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[_Whole | None] | None = None
    stop_regex: str | list[str] | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: str | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    stream_interval: _Positive | None = None
    logit_bias: dict[int | _TokenId, Any] | None = None
    sampling_seed: _Whole | None = None
    custom_params: dict[str, Any] | None = None


INTERNAL = frozenset(
    {"is_normalized", "stop_regex_max_len", "stop_regex_strs", "stop_str_max_len", "stop_strs"}
)
"""Parameters that SGLang computes itself. Newer releases accept them from a client, unchecked."""


class _Session(Struct, forbid_unknown_fields=True):
    id: str | None = None
    rid: str | None = None
    offset: int | None = None
    replace: bool | None = None
    drop_previous_output: bool | None = None


class RequestFields(Struct):
    """Fields of one request, after a batch is split. A field that a release of SGLang lacks has its default."""

    rid: str | None = None
    return_logprob: bool | None = None
    logprob_start_len: _MinusOneOrMore | None = None
    top_logprobs_num: _Count | None = None
    token_ids_logprob: list[int] | None = None
    multi_item_delimiter_indices: list[int] | None = None
    token_indices_to_pool: list[int] | None = None
    stream: bool | None = None
    priority: _Whole | None = None
    extra_key: str | None = None
    session_id: str | None = None
    lora_path: str | None = None
    custom_logit_processor: str | None = None
    bootstrap_host: str | None = None
    bootstrap_port: _Whole | None = None
    bootstrap_room: _Whole | None = None
    routed_dp_rank: _Whole | None = None
    routed_experts_start_len: _Count | None = None
    require_reasoning: bool | None = None
    return_routed_experts: bool | None = None
    return_hidden_states: bool | str | None = None
    session_params: _Session | None = None
    dimensions: _Positive | None = None
