"""Requests that once ended a server or drew a 5xx, shrunk: asked again of every platform.

One row per request. An answer below 500 is right where nothing else is said: some releases of SGLang serve what others
refuse. Fuzzing (`host.fuzz.run`) finds more; a row is what it shrinks to.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["CASES", "HostileRequest"]

_IDS = [10, 20, 30, 40]


class HostileRequest(NamedTuple):
    """One request. `refused`: it must be answered with a 4xx, since serving it would be wrong."""

    name: str
    path: str
    body: Any
    refused: bool = True
    method: str = "POST"


def _sampling(**parameters: Any) -> dict[str, Any]:
    return {"input_ids": _IDS, "sampling_params": {"max_new_tokens": 4, **parameters}}


def _native(**fields: Any) -> dict[str, Any]:
    return {"input_ids": _IDS, "sampling_params": {"max_new_tokens": 4}, **fields}


def _completion(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": "hello", "max_tokens": 4, **fields}


def _chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4, **fields}


_HUGE = 2**63

CASES: tuple[HostileRequest, ...] = (
    # Tokens
    HostileRequest("token id at the size of the vocabulary", "/generate", _native(input_ids=[1, 1024])),
    HostileRequest("token id far beyond", "/generate", _native(input_ids=[1, 10**9])),
    HostileRequest("negative token id", "/generate", _native(input_ids=[1, -1])),
    HostileRequest("token id beyond 64 bits", "/generate", _native(input_ids=[1, _HUGE])),
    HostileRequest("token ids that are text", "/generate", _native(input_ids=["a"])),
    HostileRequest("token ids nested twice", "/generate", _native(input_ids=[[[1]]])),
    HostileRequest("token ids of a batch, one bad", "/generate", _native(input_ids=[[1], [2, 1024]])),
    HostileRequest("no token ids", "/generate", _native(input_ids=[])),
    HostileRequest("one empty in a batch", "/generate", _native(input_ids=[[1], []])),
    HostileRequest("null among the token ids", "/generate", _native(input_ids=[1, None])),
    HostileRequest("true as a token id", "/generate", _native(input_ids=[True, 1]), refused=False),
    HostileRequest("a token id with a fraction", "/generate", _native(input_ids=[1.5])),
    HostileRequest("completion of a bad token", "/v1/completions", _completion(prompt=[1, 5000])),
    HostileRequest("completion of a negative token", "/v1/completions", _completion(prompt=[-5])),
    HostileRequest("completion of an empty list", "/v1/completions", _completion(prompt=[])),
    HostileRequest(
        "completion of nested lists, one bad", "/v1/completions", _completion(prompt=[[1], [9999]])
    ),
    HostileRequest("no input", "/generate", {"sampling_params": {}}),
    HostileRequest("text and token ids", "/generate", {"text": "a", "input_ids": [1]}, refused=False),
    HostileRequest(
        "an empty text", "/generate", {"text": "", "sampling_params": {"max_new_tokens": 2}}, refused=False
    ),
    HostileRequest("a text of a lone surrogate", "/generate", {"text": "\ud800"}, refused=False),
    HostileRequest(
        "a text of zero bytes",
        "/generate",
        {"text": "\x00\x00", "sampling_params": {"max_new_tokens": 2}},
        refused=False,
    ),
    # Log probabilities
    HostileRequest(
        "top_logprobs_num above the vocabulary",
        "/generate",
        _native(return_logprob=True, top_logprobs_num=5000),
    ),
    HostileRequest(
        "top_logprobs_num huge", "/generate", _native(return_logprob=True, top_logprobs_num=2**40)
    ),
    HostileRequest(
        "top_logprobs_num negative", "/generate", _native(return_logprob=True, top_logprobs_num=-1)
    ),
    HostileRequest(
        "top_logprobs_num without return_logprob", "/generate", _native(top_logprobs_num=5000), refused=False
    ),
    HostileRequest(
        "top_logprobs_num in a batch",
        "/generate",
        _native(input_ids=[[1], [2]], return_logprob=True, top_logprobs_num=[1, 5000]),
    ),
    HostileRequest(
        "top_logprobs_num in a list too short",
        "/generate",
        _native(input_ids=[[1], [2]], return_logprob=True, top_logprobs_num=[1]),
    ),
    HostileRequest(
        "token_ids_logprob beyond the vocabulary",
        "/generate",
        _native(return_logprob=True, token_ids_logprob=[1024]),
    ),
    HostileRequest(
        "token_ids_logprob negative", "/generate", _native(return_logprob=True, token_ids_logprob=[-1])
    ),
    HostileRequest(
        "token_ids_logprob of text", "/generate", _native(return_logprob=True, token_ids_logprob=["a"])
    ),
    HostileRequest(
        "token_ids_logprob nested", "/generate", _native(return_logprob=True, token_ids_logprob=[[1, 2]])
    ),
    HostileRequest(
        "logprob_start_len beyond the prompt", "/generate", _native(return_logprob=True, logprob_start_len=99)
    ),
    HostileRequest(
        "logprob_start_len at the end",
        "/generate",
        _native(return_logprob=True, logprob_start_len=4),
        refused=False,
    ),
    HostileRequest(
        "logprob_start_len below -1", "/generate", _native(return_logprob=True, logprob_start_len=-7)
    ),
    HostileRequest("return_logprob of text", "/generate", _native(return_logprob="maybe")),
    HostileRequest(
        "completion with logprobs above the vocabulary", "/v1/completions", _completion(logprobs=5000)
    ),
    HostileRequest("completion with negative logprobs", "/v1/completions", _completion(logprobs=-3)),
    HostileRequest(
        "chat with top_logprobs above the vocabulary",
        "/v1/chat/completions",
        _chat(logprobs=True, top_logprobs=5000),
    ),
    HostileRequest(
        "chat with negative top_logprobs", "/v1/chat/completions", _chat(logprobs=True, top_logprobs=-2)
    ),
    # Sampling
    HostileRequest("many stop strings", "/generate", _sampling(stop=[""] * 9999), refused=False),
    *(
        HostileRequest(f"{name} = {value!r}", "/generate", _sampling(**{name: value}))
        for name, value in (
            ("temperature", -1),
            ("temperature", "hot"),
            ("temperature", float("nan")),
            ("temperature", float("inf")),
            ("temperature", [1]),
            ("top_p", 0),
            ("top_p", 2),
            ("top_p", "a"),
            ("top_p", float("nan")),
            ("top_k", -7),
            ("top_k", 0),
            ("top_k", 1.5),
            ("top_k", "a"),
            ("top_k", _HUGE),
            ("min_p", -1),
            ("min_p", 2),
            ("min_p", {}),
            ("frequency_penalty", 3),
            ("presence_penalty", "a"),
            ("presence_penalty", float("nan")),
            ("repetition_penalty", -1),
            ("repetition_penalty", 0),
            ("repetition_penalty", "a"),
            ("max_new_tokens", -1),
            ("max_new_tokens", "a"),
            ("max_new_tokens", 1.5),
            ("max_new_tokens", _HUGE),
            ("max_new_tokens", 10**9),
            ("min_new_tokens", -1),
            ("min_new_tokens", 5),
            ("min_new_tokens", "a"),
            ("min_new_tokens", 1.5),
            ("n", 0),
            ("n", -1),
            ("n", "a"),
            ("n", 1.5),
            ("n", 10**9),
            ("n", None),
            ("stop", 7),
            ("stop", [7]),
            ("stop", {"a": 1}),
            ("stop_token_ids", "a"),
            ("stop_token_ids", ["a"]),
            ("stop_token_ids", [_HUGE]),
            ("stop_token_ids", 7),
            ("stop_token_ids", [1.5]),
            ("stop_regex", "("),
            ("stop_regex", 7),
            ("stop_regex", ["[", 1]),
            ("logit_bias", {"1024": 1}),
            ("logit_bias", {"-1": 1}),
            ("logit_bias", {"a": 1}),
            ("logit_bias", [1]),
            ("logit_bias", {"1": "a"}),
            ("logit_bias", {"1": float("nan")}),
            ("logit_bias", {"1": float("inf")}),
            ("logit_bias", {"1": None}),
            ("logit_bias", {"1": [1]}),
            ("sampling_seed", "a"),
            ("sampling_seed", _HUGE),
            ("sampling_seed", 1.5),
            ("stream_interval", "a"),
            ("stream_interval", 0),
            ("stream_interval", -1),
            ("ignore_eos", "maybe"),
            ("skip_special_tokens", [1]),
            ("no_stop_trim", {}),
            ("custom_params", 7),
            ("custom_params", "a"),
            ("no_such_parameter", 1),
            ("beam_width", "a"),
            ("beam_width", -1),
            ("is_normalized", True),
            ("stop_str_max_len", 5),
            ("stop_strs", [1]),
            ("__class__", 1),
        )
    ),
    HostileRequest(
        "stop_token_ids outside", "/generate", _sampling(stop_token_ids=[-1, 5000]), refused=False
    ),
    HostileRequest(
        "stop_token_ids outside, kept back", "/generate", _sampling(stop_token_ids=[5000], min_new_tokens=2)
    ),
    HostileRequest(
        "stop_token_ids negative, kept back", "/generate", _sampling(stop_token_ids=[-1], min_new_tokens=2)
    ),
    HostileRequest("sampling_params that is a list", "/generate", _native(sampling_params=[])),
    HostileRequest(
        "sampling_params of a batch, too few",
        "/generate",
        _native(input_ids=[[1], [2]], sampling_params=[{}]),
    ),
    HostileRequest("sampling_params that is text", "/generate", _native(sampling_params="a")),
    HostileRequest(
        "sampling_params of numbers", "/generate", _native(input_ids=[[1], [2]], sampling_params=[1, 2])
    ),
    HostileRequest(
        "different n in a batch",
        "/generate",
        _native(input_ids=[[1], [2]], sampling_params=[{"n": 1}, {"n": 2}]),
    ),
    HostileRequest(
        "n with a single prompt and lists",
        "/generate",
        {"input_ids": [1], "return_logprob": [True], "sampling_params": {"n": 2, "max_new_tokens": 2}},
        refused=False,
    ),
    HostileRequest("completion of n = 0", "/v1/completions", _completion(n=0)),
    HostileRequest("completion of n = -1", "/v1/completions", _completion(n=-1)),
    HostileRequest("completion of n = 10^9", "/v1/completions", _completion(n=10**9)),
    HostileRequest(
        "completion with best_of below n", "/v1/completions", _completion(n=2, best_of=1), refused=False
    ),
    HostileRequest(
        "completion with a bias beyond the vocabulary",
        "/v1/completions",
        _completion(logit_bias={"99999": 1}),
    ),
    HostileRequest("completion with a bias on text", "/v1/completions", _completion(logit_bias={"a": 1})),
    HostileRequest(
        "completion with a bias of infinity",
        "/v1/completions",
        _completion(logit_bias={"1": float("-inf")}),
        refused=False,
    ),
    HostileRequest("completion with max_tokens huge", "/v1/completions", _completion(max_tokens=10**12)),
    HostileRequest(
        "completion with echo and logprobs",
        "/v1/completions",
        _completion(echo=True, logprobs=1),
        refused=False,
    ),
    HostileRequest("completion with a seed beyond 64 bits", "/v1/completions", _completion(seed=_HUGE)),
    HostileRequest(
        "completion with stop token ids", "/v1/completions", _completion(stop_token_ids=[-1], min_tokens=1)
    ),
    HostileRequest(
        "chat with an unknown role",
        "/v1/chat/completions",
        {**_chat(), "messages": [{"role": "x", "content": 1}]},
    ),
    HostileRequest("chat without messages", "/v1/chat/completions", {**_chat(), "messages": []}),
    HostileRequest(
        "chat with an image",
        "/v1/chat/completions",
        {
            **_chat(),
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
                }
            ],
        },
        refused=False,
    ),
    HostileRequest(
        "chat with an unknown tool choice", "/v1/chat/completions", _chat(tool_choice="no_such_function")
    ),
    HostileRequest(
        "chat with tools that are no functions", "/v1/chat/completions", _chat(tools=[{"type": "x"}])
    ),
    HostileRequest(
        "chat with a response format unknown", "/v1/chat/completions", _chat(response_format={"type": "x"})
    ),
    HostileRequest(
        "chat with a schema that is no schema",
        "/v1/chat/completions",
        _chat(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {"type": "no_such"}},
            }
        ),
    ),
    # Grammars
    HostileRequest("a schema that is no JSON", "/generate", _sampling(json_schema="{")),
    HostileRequest("a schema that is a number", "/generate", _sampling(json_schema=7)),
    HostileRequest("a regular expression that is none", "/generate", _sampling(regex="(")),
    HostileRequest("a grammar that is none", "/generate", _sampling(ebnf="::= ::=")),
    HostileRequest("a structural tag that is none", "/generate", _sampling(structural_tag="{")),
    HostileRequest("two grammars", "/generate", _sampling(regex="a", ebnf='root ::= "a"')),
    # Embeddings and other inputs
    HostileRequest(
        "input_embeds", "/generate", {"input_embeds": [[0.5] * 256], "sampling_params": {"max_new_tokens": 2}}
    ),
    HostileRequest(
        "input_embeds of another width",
        "/generate",
        {"input_embeds": [[0.5] * 3], "sampling_params": {"max_new_tokens": 2}},
    ),
    HostileRequest("input_embeds that are empty", "/generate", {"input_embeds": []}),
    HostileRequest("input_embeds of text", "/generate", {"input_embeds": [["a"]]}),
    HostileRequest("input_embeds that are ragged", "/generate", {"input_embeds": [[0.5] * 256, [0.5]]}),
    HostileRequest(
        "an image to a text model",
        "/generate",
        _native(image_data="data:image/png;base64,AAAA"),
        refused=False,
    ),
    HostileRequest("audio to a text model", "/generate", _native(audio_data=["x"]), refused=False),
    HostileRequest(
        "positional_embed_overrides", "/generate", _native(positional_embed_overrides={"a": 1}), refused=False
    ),
    HostileRequest("token_indices_to_pool", "/generate", _native(token_indices_to_pool=[99]), refused=False),
    HostileRequest(
        "token_indices_to_pool of a batch, too few for n",
        "/generate",
        {
            "input_ids": [[1, 2]],
            "token_indices_to_pool": [[1]],
            "sampling_params": {"n": 2, "max_new_tokens": 2},
        },
    ),
    HostileRequest(
        "multi_item_delimiter_indices", "/generate", _native(multi_item_delimiter_indices=[99]), refused=False
    ),
    HostileRequest("an adapter that is not loaded", "/generate", _native(lora_path="no-such"), refused=False),
    HostileRequest("custom_logit_processor", "/generate", _native(custom_logit_processor="garbage")),
    HostileRequest("hidden states that are not enabled", "/generate", _native(return_hidden_states=True)),
    HostileRequest("hidden states of an empty list", "/generate", _native(return_hidden_states=[])),
    HostileRequest(
        "hidden states of a mode that does not exist", "/generate", _native(return_hidden_states="some")
    ),
    HostileRequest("routed experts", "/generate", _native(return_routed_experts=True), refused=False),
    HostileRequest("an unknown data-parallel rank", "/generate", _native(routed_dp_rank=7), refused=False),
    HostileRequest(
        "a bootstrap room",
        "/generate",
        _native(bootstrap_host="x", bootstrap_port=1, bootstrap_room=1),
        refused=False,
    ),
    HostileRequest("rid that is a number", "/generate", _native(rid=7)),
    HostileRequest("rid of a list for one prompt", "/generate", _native(rid=["a"])),
    HostileRequest("the same rid twice", "/generate", _native(input_ids=[[1], [2]], rid=["a", "a"])),
    HostileRequest("priority that is text", "/generate", _native(priority="high")),
    HostileRequest("extra_key that is a number", "/generate", _native(extra_key=7), refused=False),
    HostileRequest("stream that is text", "/generate", _native(stream="maybe")),
    HostileRequest(
        "a session that does not exist", "/generate", _native(session_params={"id": "no-such"}), refused=False
    ),
    HostileRequest("session_params that are garbage", "/generate", _native(session_params={"x": 1})),
    HostileRequest(
        "session_params of wrong types", "/generate", _native(session_params={"id": 7, "offset": "a"})
    ),
    # Bodies
    HostileRequest("no JSON", "/generate", b"{"),
    HostileRequest("an empty body", "/generate", b""),
    HostileRequest("null", "/generate", b"null"),
    HostileRequest("a list", "/generate", b"[]"),
    HostileRequest("bytes", "/generate", b"\xff\xfe\x00"),
    HostileRequest("no JSON for a completion", "/v1/completions", b"{"),
    HostileRequest("an empty object for a chat", "/v1/chat/completions", b"{}"),
    HostileRequest("deep nesting", "/generate", b'{"input_ids": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
    HostileRequest("a number of many digits", "/generate", b'{"input_ids": [' + b"9" * 5000 + b"]}"),
    # Other endpoints
    HostileRequest("an embedding of a generating model", "/v1/embeddings", {"model": "m", "input": "a"}),
    HostileRequest("an embedding of token ids beyond", "/v1/embeddings", {"model": "m", "input": [5000]}),
    HostileRequest("an embedding of nothing", "/v1/embeddings", {"model": "m", "input": []}),
    HostileRequest("encode", "/encode", {"text": "a"}),
    HostileRequest("classify", "/classify", {"text": "a"}),
    HostileRequest(
        "score of labels beyond the vocabulary",
        "/v1/score",
        {"model": "m", "query": "a", "items": ["b"], "label_token_ids": [5000]},
    ),
    HostileRequest(
        "score of negative labels",
        "/v1/score",
        {"model": "m", "query": "a", "items": ["b"], "label_token_ids": [-1]},
    ),
    HostileRequest(
        "score without items",
        "/v1/score",
        {"model": "m", "query": "a", "items": [], "label_token_ids": [1]},
        refused=False,
    ),
    HostileRequest(
        "score of text and tokens",
        "/v1/score",
        {"model": "m", "query": "a", "items": [[1]], "label_token_ids": [1]},
        refused=False,
    ),
    HostileRequest(
        "score of tokens beyond",
        "/v1/score",
        {"model": "m", "query": [1], "items": [[5000]], "label_token_ids": [1]},
    ),
    HostileRequest("rerank", "/v1/rerank", {"query": "a", "documents": ["b"]}),
    HostileRequest("tokenize garbage", "/v1/tokenize", {"prompt": 7}),
    HostileRequest(
        "detokenize beyond the vocabulary", "/v1/detokenize", {"model": "m", "tokens": [99999]}, refused=False
    ),
    HostileRequest("abort of an unknown request", "/abort_request", {"rid": "no-such"}, refused=False),
    HostileRequest("abort of a number", "/abort_request", {"rid": 7}),
    HostileRequest(
        "open a session of a negative length", "/open_session", {"capacity_of_str_len": -1}, refused=False
    ),
    HostileRequest("open a session of text", "/open_session", {"capacity_of_str_len": "a"}),
    HostileRequest(
        "close a session that does not exist", "/close_session", {"session_id": "no-such"}, refused=False
    ),
    HostileRequest("a record of experts that is not kept", "/start_expert_distribution_record", {}),
    HostileRequest("a dump of experts that is not kept", "/dump_expert_distribution_record", {}),
    HostileRequest(
        "weights in a format that there is not",
        "/update_weights_from_disk",
        {"model_path": "x", "load_format": "x"},
    ),
    HostileRequest("weights from nowhere", "/update_weights_from_disk", {"model_path": "/no/such/path"}),
    HostileRequest(
        "a parameter that does not exist", "/get_weights_by_name", {"name": "no-such"}, refused=False
    ),
    HostileRequest(
        "a function call of no parser",
        "/parse_function_call",
        {"text": "a", "tools": [], "tool_call_parser": "no-such"},
    ),
    HostileRequest(
        "reasoning of no parser", "/separate_reasoning", {"text": "a", "reasoning_parser": "no-such"}
    ),
    HostileRequest("a response that does not exist", "/v1/responses/no-such", None, method="GET"),
    HostileRequest("a model that does not exist", "/v1/models/no-such", None, method="GET"),
    HostileRequest("a path that does not exist", "/no/such/path", {}),
    HostileRequest("a conversation of nothing", "/api/chat", {"model": "m", "messages": []}),
    HostileRequest("cancel a response that does not exist", "/v1/responses/no-such/cancel", {}),
    HostileRequest("messages without tokens", "/v1/messages", {"model": "m", "messages": []}),
    HostileRequest(
        "messages of garbage", "/v1/messages", {"model": "m", "max_tokens": -1, "messages": [{"role": 1}]}
    ),
)
