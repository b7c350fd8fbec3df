"""Requests to every endpoint that a client reaches: mostly right, with up to three fields that are not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sglang_platform.conformance.host.fuzz.values import VOCABULARY, hostile, small_answer, texts, token_ids

__all__ = ["Request", "requests"]


@dataclass(frozen=True)
class Request:
    """One request, and how long its client stays: it leaves after so many seconds where that is not None."""

    path: str
    body: Any
    """A JSON value, or bytes that are sent as they are."""

    method: str = "POST"
    leaves_after: float | None = None

    def data(self) -> bytes | None:
        if self.method == "GET":
            return None
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Fields = Mapping[str, st.SearchStrategy[Any]]

_ids = st.integers(0, VOCABULARY - 1)
_flag = st.booleans()

_SAMPLING: Fields = {
    "temperature": st.floats(0, 3),
    "top_p": st.floats(0.01, 1),
    "top_k": st.sampled_from([-1, 1, 2, 40, 5000]),
    "min_p": st.floats(0, 1),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.01, 2),
    "min_new_tokens": st.integers(0, 4),
    "n": st.integers(1, 3),
    "stop": st.one_of(st.text(max_size=5), st.lists(st.text(min_size=1, max_size=5), max_size=3)),
    "stop_token_ids": st.lists(_ids, max_size=4),
    "stop_regex": st.sampled_from(["a+", "[0-9]{2,3}", "(x|y)*", ".", "\\d$"]),
    "ignore_eos": _flag,
    "skip_special_tokens": _flag,
    "spaces_between_special_tokens": _flag,
    "no_stop_trim": _flag,
    "logit_bias": st.dictionaries(_ids.map(str), st.floats(-100, 100), max_size=4),
    "sampling_seed": st.integers(0, 2**62),
    "stream_interval": st.integers(1, 4),
    "custom_params": st.dictionaries(st.text(max_size=4), st.integers(-9, 9), max_size=2),
    "json_schema": st.sampled_from(
        ['{"type": "object"}', '{"type": "no_such"}', "{", "[]", '{"$ref": "#/a"}']
    ),
    "regex": st.sampled_from(["a|b", "[0-9]+", "(", "a{999999}", ""]),
    "ebnf": st.sampled_from(['root ::= "a"', "root ::= root", "::=", ""]),
    "structural_tag": st.sampled_from(["{", "{}", '{"structures": [], "triggers": []}']),
}
_NATIVE: Fields = {
    "stream": _flag,
    "return_logprob": _flag,
    "logprob_start_len": st.integers(-1, 6),
    "top_logprobs_num": st.sampled_from([0, 1, 5, VOCABULARY, VOCABULARY + 1]),
    "token_ids_logprob": st.lists(_ids, max_size=4),
    "return_text_in_logprobs": _flag,
    "return_hidden_states": _flag,
    "rid": st.text(min_size=1, max_size=8),
    "image_data": st.sampled_from(["data:image/png;base64,AAAA", ["x"], None]),
    "input_embeds": st.just([[0.25] * 256]),
    "lora_path": st.sampled_from([None, "no-such-adapter"]),
    "session_params": st.fixed_dictionaries({}, optional={
        "id": st.sampled_from(["s0", "s1", "none"]), "rid": st.text(max_size=3), "offset": st.integers(-3, 9),
        "replace": _flag, "drop_previous_output": _flag,
    }),
    "priority": st.integers(-5, 5),
    "extra_key": st.text(max_size=4),
    "return_prompt_token_ids": _flag,
    "custom_logit_processor": st.sampled_from(["", "garbage", "{}"]),
    "positional_embed_overrides": hostile,
    "token_indices_to_pool": st.lists(st.integers(-1, 9), max_size=2),
    "multi_item_delimiter_indices": st.lists(st.integers(-1, 9), max_size=2),
    "background": _flag,
    "require_reasoning": _flag,
    "routed_dp_rank": st.integers(-1, 2),
    "bootstrap_room": st.integers(-1, 2),
    "return_routed_experts": _flag,
    "return_sampling_mask": _flag,
}  # fmt: skip
_OPENAI: Fields = {
    "stream": _flag,
    "stream_options": st.sampled_from([{"include_usage": True}, {}, None]),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0.01, 1),
    "top_k": st.sampled_from([-1, 1, 40]),
    "n": st.integers(1, 3),
    "stop": st.lists(st.text(min_size=1, max_size=4), max_size=3),
    "seed": st.integers(0, 2**62),
    "logit_bias": st.dictionaries(_ids.map(str), st.floats(-100, 100), max_size=3),
    "frequency_penalty": st.floats(-2, 2),
    "presence_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.01, 2),
    "min_tokens": st.integers(0, 3),
    "stop_token_ids": st.lists(_ids, max_size=3),
    "user": st.text(max_size=4),
    "ignore_eos": _flag,
    "regex": st.sampled_from(["[ab]", "("]),
    "response_format": st.sampled_from([
        {"type": "text"}, {"type": "json_object"}, {"type": "no"},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    ]),
    "session_params": st.just({"id": "none"}),
    "rid": st.text(min_size=1, max_size=6),
    "return_hidden_states": _flag,
    "lora_path": st.just("no-such-adapter"),
}  # fmt: skip
_COMPLETION: Fields = {
    **_OPENAI,
    "logprobs": st.sampled_from([0, 1, 5, VOCABULARY + 1]),
    "echo": _flag,
    "best_of": st.integers(1, 2),
    "suffix": st.text(max_size=4),
}
_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
_CHAT: Fields = {
    **_OPENAI,
    "logprobs": _flag,
    "top_logprobs": st.sampled_from([0, 1, 20, VOCABULARY + 1]),
    "tools": st.sampled_from([[_TOOL], [], [{"type": "function"}], [{"type": "x", "function": {}}]]),
    "tool_choice": st.sampled_from(
        ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}]
    ),
    "separate_reasoning": _flag,
    "continue_final_message": _flag,
    "chat_template_kwargs": st.dictionaries(st.text(max_size=4), hostile, max_size=1),
    "parallel_tool_calls": _flag,
}
_role = st.sampled_from(["user", "system", "assistant"])
_messages = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": _role, "content": st.text(max_size=40)}),
        st.fixed_dictionaries({"role": _role, "content": st.text(max_size=40)}),
        st.fixed_dictionaries({"role": st.sampled_from(["tool", "x", ""]), "content": texts}),
        st.just({"role": "user", "content": [{"type": "text", "text": "hello"}]}),
        st.just({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}),
        st.just({"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}),
    ),
    min_size=1,
    max_size=3,
)  # fmt: skip


@st.composite
def _filled(draw: st.DrawFn, base: Mapping[str, Any], optional: Fields) -> dict[str, Any]:
    """The base's fields, some of the optional ones, and up to three of all replaced by hostile values."""
    body = {name: draw(value) for name, value in base.items()}
    for name in (
        draw(st.lists(st.sampled_from(sorted(optional)), max_size=4, unique=True)) if optional else ()
    ):
        body[name] = draw(optional[name])
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1, 1, 2, 3]))):
        name = draw(st.sampled_from(sorted({*body, *optional, "no_such_field"})))
        if draw(st.booleans()):
            body[name] = draw(hostile)
        else:
            body.pop(name, None)
    return body


_sampling = _filled({"max_new_tokens": small_answer}, _SAMPLING)

_BODIES: Mapping[str, st.SearchStrategy[Any]] = {
    "/generate": st.one_of(
        _filled({"input_ids": token_ids, "sampling_params": _sampling}, _NATIVE),
        _filled({"input_ids": token_ids, "sampling_params": _sampling}, _NATIVE),
        _filled({"text": texts, "sampling_params": _sampling}, _NATIVE),
        _filled({"text": texts, "sampling_params": st.lists(_sampling, max_size=3)}, _NATIVE),
    ),
    "/v1/completions": _filled(
        {"model": st.just("m"), "prompt": texts | token_ids, "max_tokens": small_answer}, _COMPLETION
    ),
    "/v1/chat/completions": _filled(
        {"model": st.just("m"), "messages": _messages, "max_tokens": small_answer}, _CHAT
    ),
    "/v1/embeddings": _filled({"model": st.just("m"), "input": texts | token_ids}, {"dimensions": st.integers(-1, 9)}),
    "/v1/score": _filled(
        {"model": st.just("m"), "query": st.text(max_size=9), "items": st.lists(st.text(max_size=9), max_size=3),
         "label_token_ids": st.lists(_ids, max_size=3)},
        {"apply_softmax": _flag, "item_first": _flag},
    ),
    "/v1/rerank": _filled({"query": texts, "documents": texts}, {}),
    "/v1/responses": _filled(
        {"model": st.just("m"), "input": texts, "max_output_tokens": small_answer},
        {"stream": _flag, "background": _flag, "temperature": st.floats(0, 2), "previous_response_id": texts},
    ),
    "/v1/messages": _filled(
        {"model": st.just("m"), "messages": _messages, "max_tokens": small_answer},
        {"stream": _flag, "system": texts, "temperature": st.floats(0, 1), "tools": hostile},
    ),
    "/v1/tokenize": _filled({"model": st.just("m"), "prompt": texts}, {"add_special_tokens": _flag}),
    "/v1/detokenize": _filled({"model": st.just("m"), "tokens": token_ids}, {"skip_special_tokens": _flag}),
    "/api/chat": _filled({"model": st.just("m"), "messages": _messages}, {"options": hostile, "stream": _flag}),
    "/encode": _filled({"text": texts}, {"input_ids": token_ids}),
    "/abort_request": _filled({"rid": texts}, {"abort_all": _flag}),
    "/open_session": _filled({"capacity_of_str_len": st.integers(1, 99), "session_id": st.sampled_from(["s0", "s1"])},
                             {"streaming": _flag, "timeout": st.floats(0, 9)}),
    "/close_session": _filled({"session_id": st.sampled_from(["s0", "s1", "s2"])}, {}),
    "/flush_cache": st.just({}),
    "/parse_function_call": _filled({"text": texts, "tools": st.just([_TOOL]), "tool_call_parser": texts}, {}),
    "/separate_reasoning": _filled({"text": texts, "reasoning_parser": texts}, {}),
    "/get_weights_by_name": _filled({"name": texts}, {"truncate_size": st.integers(-1, 9)}),
    "/update_weights_from_disk": _filled({"model_path": texts}, {"load_format": texts}),
    "/no/such/path": hostile,
}  # fmt: skip
_OFTEN = ("/generate",) * 8 + ("/v1/completions",) * 4 + ("/v1/chat/completions",) * 4 + ("/v1/score",)
_READ = (
    "/health",
    "/model_info",
    "/server_info",
    "/v1/models",
    "/v1/models/x",
    "/v1/responses/x",
    "/no/such/path",
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """One request; about one in ten is no JSON, is read only, or is left by its client."""
    kind = draw(st.sampled_from(["body"] * 17 + ["broken", "get", "leaves"]))
    if kind == "get":
        return Request(draw(st.sampled_from(_READ)), None, "GET")
    path = draw(st.sampled_from((*_OFTEN, *_BODIES)))
    body = draw(_BODIES[path])
    if kind == "broken":
        data = json.dumps(body).encode()
        cut = draw(st.integers(0, len(data)))
        return Request(path, draw(st.sampled_from([data[:cut], data + b"}", b"\xff" + data, b"[" * 2000])))
    return Request(path, body, leaves_after=draw(st.floats(0.01, 0.3)) if kind == "leaves" else None)
