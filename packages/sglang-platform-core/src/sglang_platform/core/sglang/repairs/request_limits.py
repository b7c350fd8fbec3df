"""The table of valid values for each sampling parameter and request field.

An absent parameter or None means SGLang's default. The table refuses values that would crash a worker, on the device or
in Python arithmetic. Older releases of SGLang check almost nothing; the newest leaves these values to the device, whose
errors are asynchronous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["INTERNAL", "MAX_SAMPLES", "REQUEST", "SAMPLING", "Rule"]

Rule = Callable[[Any], str | None]
"""Returns None for a valid value, else the text of the error ("must be ...")."""

MAX_SAMPLES = 4096
"""The largest number of answers per prompt (`n`). SGLang creates a request for each before it checks for room."""

_LARGEST = 2**63 - 1
_LARGEST_BIAS = 1e30  # far below the largest float32, so that a sum with a logit stays finite


def _whole(low: int = -_LARGEST - 1, high: int = _LARGEST) -> Rule:
    words = f"must be a whole number from {low} to {high}"
    return lambda value: None if _is_whole(value) and low <= value <= high else words


def _number(low: float, high: float, *, above_low: bool = False) -> Rule:
    words = (
        f"must be a number {'above' if above_low else 'from'} {low:g} {'' if above_low else 'to '}{high:g}"
    )
    if above_low:
        words = f"must be a number above {low:g} and at most {high:g}"

    def rule(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return words
        return None if low <= value <= high and not (above_low and value == low) else words

    return rule


def _a(kind: type | tuple[type, ...], words: str) -> Rule:
    return lambda value: None if isinstance(value, kind) else f"must be {words}"


def _top_k(value: Any) -> str | None:
    right = _is_whole(value) and (value == -1 or 1 <= value <= _LARGEST)
    return None if right else "must be -1 or a whole number of at least 1"


def _texts(value: Any) -> str | None:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return None
    return "must be a string or a list of strings"


def _numbers(value: Any) -> str | None:
    if not isinstance(value, list | set | tuple):
        return "must be a list of token ids"
    right = all(one is None or (_is_whole(one) and abs(one) <= _LARGEST) for one in value)
    return None if right else "must be a list of token ids"


def _bias(value: Any) -> str | None:
    words = "must map token ids to finite numbers"
    if not isinstance(value, Mapping):
        return words
    for token, bias in value.items():
        if not str(token).lstrip("-").isdecimal():
            return words
        if isinstance(bias, bool) or not isinstance(bias, int | float):
            return words
        # Minus infinity bans a token; any other non-finite value makes the probabilities NaN.
        if bias != -math.inf and not abs(bias) <= _LARGEST_BIAS:
            return words
    return None


def _named(value: Any) -> str | None:
    right = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    return None if right else "must map names to values"


_BOOL = _a(bool, "true or false")
_TEXT = _a(str, "a string")

SAMPLING: Mapping[str, Rule] = {
    "max_new_tokens": _whole(0),
    "min_new_tokens": _whole(0),
    "n": _whole(1, MAX_SAMPLES),
    "beam_width": _whole(1, MAX_SAMPLES),
    "temperature": _number(0, 1e30),
    "top_p": _number(0, 1, above_low=True),
    "top_k": _top_k,
    "min_p": _number(0, 1),
    "frequency_penalty": _number(-2, 2),
    "presence_penalty": _number(-2, 2),
    "repetition_penalty": _number(0, 2, above_low=True),
    "stop": _texts,
    "stop_token_ids": _numbers,
    "stop_regex": _texts,
    "json_schema": _TEXT,
    "regex": _TEXT,
    "ebnf": _TEXT,
    "structural_tag": _TEXT,
    "ignore_eos": _BOOL,
    "skip_special_tokens": _BOOL,
    "spaces_between_special_tokens": _BOOL,
    "no_stop_trim": _BOOL,
    "stream_interval": _whole(1),
    "logit_bias": _bias,
    "sampling_seed": _whole(),
    "custom_params": _named,
}

INTERNAL = frozenset(
    {"is_normalized", "stop_regex_max_len", "stop_regex_strs", "stop_str_max_len", "stop_strs"}
)
"""Parameters that SGLang computes itself. Newer releases accept them from a client, unchecked."""

REQUEST: Mapping[str, Rule] = {
    "rid": _TEXT,
    "return_logprob": _BOOL,
    "logprob_start_len": _whole(-1),
    "top_logprobs_num": _whole(0),
    "stream": _BOOL,
    "priority": _whole(),
    "extra_key": _TEXT,
    "session_id": _TEXT,
    "lora_path": _TEXT,
    "custom_logit_processor": _TEXT,
    "bootstrap_host": _TEXT,
    "bootstrap_port": _whole(),
    "bootstrap_room": _whole(),
    "routed_dp_rank": _whole(),
    "routed_experts_start_len": _whole(0),
    "require_reasoning": _BOOL,
    "return_routed_experts": _BOOL,
    "return_hidden_states": _a((bool, str), "true, false or a mode"),
    "session_params": _a(dict, "a mapping"),
    "dimensions": _whole(1),
}
"""Fields of one request, after a batch is split. Fields that a release of SGLang lacks are skipped."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
