"""A request that a worker could not serve is a ValueError before it leaves for one; a right one passes as it is."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sglang_platform.core.sglang.repairs.request_check import (
    Model,
    check_batch,
    check_request,
    malformed_as_value_error,
)
from sglang_platform.core.sglang.repairs.request_limits import MAX_SAMPLES

_MODEL = Model(vocabulary=100, context=32, hidden_size=4, takes_media=False)


def _request(sampling: Any = None, *, media: bool = False, **fields: Any) -> Any:
    fields.setdefault("rid", "one")
    return SimpleNamespace(sampling_params=sampling or {}, contains_mm_input=lambda: media, **fields)


def _check(request: Any, ids: Any = (1, 2, 3), model: Model = _MODEL) -> None:
    check_request(request, None if ids is None else list(ids), model)


@pytest.mark.parametrize(
    "ids", [[100], [-1], [10**9], [2**63], ["a"], [None], [1.5], [[1]], [True], []], ids=repr
)
def test_ids_that_are_no_tokens_are_refused(ids: Any) -> None:
    with pytest.raises(ValueError, match="token"):
        _check(_request(), ids)


def test_the_ends_of_the_vocabulary_are_served() -> None:
    _check(_request(), [0, 99])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", "a"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_k", 0),
        ("top_k", -2),
        ("top_k", 2**63),
        ("top_k", 1.0),
        ("min_p", 1.1),
        ("frequency_penalty", 2.1),
        ("frequency_penalty", math.nan),
        ("presence_penalty", math.inf),
        ("repetition_penalty", 0),
        ("max_new_tokens", -1),
        ("max_new_tokens", 2**63),
        ("min_new_tokens", "1"),
        ("n", 0),
        ("n", MAX_SAMPLES + 1),
        ("stop", [1]),
        ("stop_token_ids", "a"),
        ("stop_token_ids", [2**64]),
        ("stop_regex", {}),
        ("logit_bias", {"100": 1}),
        ("logit_bias", {"-1": 1}),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"1": math.nan}),
        ("logit_bias", {"1": True}),
        ("logit_bias", {"1": math.inf}),
        ("logit_bias", {"1": 1e300}),
        ("logit_bias", [1]),
        ("stream_interval", 0),
        ("sampling_seed", 2**63),
        ("custom_params", [1]),
        ("custom_params", {1: 1}),
        ("is_normalized", True),
        ("stop_strs", ["a"]),
        ("json_schema", {}),
    ],
)
def test_sampling_parameters_out_of_their_rules_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        _check(_request({name: value}))


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0, "top_k": -1, "top_p": 1, "n": None, "max_new_tokens": None},
        {"logit_bias": {"0": -100, "99": 1.5, "5": -math.inf}},
        {"stop": "a", "stop_token_ids": [1, None, 5000]},
        {"custom_params": {"a": [1, "b", None], "c": {"d": {"e": [True]}}}},
        {"min_new_tokens": 2, "stop_token_ids": [99]},
        {"a_parameter_of_another_release": (1, "a")},
        {"temperature": np.float64(0.5), "logit_bias": {5: np.float64(1)}},
    ],
    ids=repr,
)
def test_right_sampling_parameters_pass(sampling: dict[str, Any]) -> None:
    _check(_request(sampling))


def test_a_stop_token_outside_the_vocabulary_matters_where_logits_are_written() -> None:
    _check(_request({"stop_token_ids": [500]}))
    with pytest.raises(ValueError, match="stop_token_ids has 500"):
        _check(_request({"stop_token_ids": [500], "min_new_tokens": 1}))


@pytest.mark.parametrize(
    "fields",
    [
        {"top_logprobs_num": 101},
        {"top_logprobs_num": -1},
        {"token_ids_logprob": [100]},
        {"token_ids_logprob": [-1]},
        {"token_ids_logprob": [[1]]},
        {"token_ids_logprob": 7},
        {"return_logprob": True, "logprob_start_len": 4},
        {"logprob_start_len": -2},
        {"rid": 7},
        {"return_hidden_states": []},
        {"priority": "high"},
        {"session_params": {"id": 7}},
        {"session_params": {"no_such": 1}},
        {"session_params": {"offset": True}},
        {"token_indices_to_pool": [3]},
        {"multi_item_delimiter_indices": [-1]},
        {"positional_embed_overrides": {"a": 1}},
        {"input_embeds": [[0.0] * 3]},
        {"input_embeds": [[0.0, 0.0, 0.0, math.nan]]},
        {"input_embeds": [[0.0] * 4] * 32},
        {"input_embeds": [0.0]},
    ],
    ids=repr,
)
def test_fields_of_a_request_out_of_their_rules_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(reversed(fields))):
        _check(_request(**fields), None if "input_embeds" in fields else [1, 2, 3])


def test_right_fields_pass() -> None:
    _check(
        _request(top_logprobs_num=100, token_ids_logprob=[0, 99], return_logprob=True, logprob_start_len=3)
    )
    _check(_request(logprob_start_len=50, return_logprob=False))
    _check(_request(input_embeds=[[0.5, 1, 2, 3]]), None)
    _check(_request(session_params={"id": "a", "offset": -1, "replace": True}), [])


def test_media_are_refused_where_the_model_takes_none() -> None:
    with pytest.raises(ValueError, match="takes no images"):
        _check(_request(media=True))
    # Their places in the prompt have ids of the processor's.
    _check(_request(media=True), [1, 10**6], _MODEL._replace(takes_media=True))


@pytest.mark.parametrize(
    "sampling", ["a", [], [1], [{}, "a"], {"n": 0}, {"n": None}, [{"n": 10**9}]], ids=repr
)
def test_a_batch_of_wrong_sampling_parameters_is_refused(sampling: Any) -> None:
    with pytest.raises(ValueError, match="sampling_params"):
        check_batch(SimpleNamespace(sampling_params=sampling))


def test_right_batches_pass() -> None:
    for sampling in (None, {}, {"n": 2}, [{}, {"n": 3}, None]):
        check_batch(SimpleNamespace(sampling_params=sampling, input_embeds=[[0.5]]))


@pytest.mark.parametrize("error", [TypeError, AttributeError, KeyError, IndexError, OverflowError])
def test_what_the_host_trips_over_is_the_clients_error(error: type[Exception]) -> None:
    with pytest.raises(ValueError, match=f"malformed request: {error.__name__}"), malformed_as_value_error():
        raise error("here")


@pytest.mark.long
@pytest.mark.host
def test_the_hosts_tokenizer_manager_refuses_bad_requests(monkeypatch: Any, run_program: Any) -> None:
    monkeypatch.setenv("SGLANG_PLATFORM", "example_oot")
    monkeypatch.setenv("SGLANG_EXAMPLE_OOT_DEVICE", "cpu")
    done = run_program("refuse_bad_requests.py", timeout=600)
    told = json.loads(done.stdout.splitlines()[-1])
    words = {
        "token": "token id 100",
        "negative": "token id -1",
        "n": "`$.n`",
        "mapping": "sampling_params must be",
        "lists": "malformed request: IndexError",
        "logprobs": "top_logprobs_num is 101",
        "bias": "logit_bias has the token 100",
        "kind": "`$.temperature`",
        "image": "takes no images",
    }
    right = told.pop("right")  # the host's own rules have no manager to speak of; ours say nothing
    assert not any(said in right for said in (*words.values(), "must be", "Expected")), right
    assert {name: said for name, said in told.items() if words[name] not in said} == {}
