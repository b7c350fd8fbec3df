"""Checks requests before they are sent to a worker: SGLang passes most values from clients on unchecked.

A token id out of range, or a `top_logprobs_num` larger than the vocabulary, reaches the device. The device's error is
asynchronous, points to the wrong place, and ends the server for all clients. The checks run where the tokenizer manager
builds a request, a path that HTTP and `Engine` share; SGLang treats a ValueError there as the client's error. SGLang
0.5.11 to 0.5.23: `managers/io_struct.py` and `managers/tokenizer_manager.py`.
"""

from __future__ import annotations

import copy
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import losing_fields, soft
from sglang_platform.core.sglang.repairs.request_check import (
    Model,
    check_batch,
    check_request,
    check_taken_apart,
    malformed_as_value_error,
)
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_MANAGER = "sglang.srt.managers.tokenizer_manager:TokenizerManager"
_REQUESTS = "sglang.srt.managers.io_struct"
_UNCHECKED = "values of a request are not checked, and one that the model cannot take may end the server"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Check clients' requests, on every platform of ours."""
    for kind in ("GenerateReqInput", "EmbeddingReqInput"):
        soft(
            f"{_REQUESTS}:{kind}.normalize_batch_and_arguments", _take_apart, HookType.AROUND,
            without="a malformed batch is answered with status 500, and the number of its answers is not limited",
        )  # fmt: skip
    for name, hook in (("_init_req_state", _begin), ("_tokenize_texts", _tokenize)):
        soft(
            f"{_MANAGER}.{name}", hook, HookType.AROUND,
            without="some malformed requests are answered with status 500",
        )  # fmt: skip
    soft(f"{_MANAGER}._validate_one_request", _validate, HookType.AROUND, without=_UNCHECKED)
    make_up = _make_up_readable if host.typed_requests else _make_up
    soft(f"{_MANAGER}._create_tokenized_object", make_up, HookType.AROUND, without=_UNCHECKED)


def _take_apart(original: Any, request: Any) -> None:
    with malformed_as_value_error():
        check_batch(request)
        original(request)
        check_taken_apart(request)


def _begin(original: Any, manager: Any, *args: Any, **kwargs: Any) -> Any:
    with malformed_as_value_error():
        return original(manager, *args, **kwargs)


async def _tokenize(original: Any, manager: Any, *args: Any, **kwargs: Any) -> Any:
    with malformed_as_value_error():
        return await original(manager, *args, **kwargs)


def _validate(original: Any, manager: Any, obj: Any, input_ids: Any) -> None:
    model = None
    with losing_fields(_validate, without=_UNCHECKED):
        config = manager.model_config
        model = Model(
            vocabulary=config.vocab_size,
            context=manager.context_len,
            hidden_size=config.hidden_size,
            takes_media=manager.mm_processor is not None,
        )
    with malformed_as_value_error():
        if model is not None:
            check_request(obj, input_ids, model)
        original(manager, obj, input_ids)


def _make_up(original: Any, manager: Any, *args: Any, **kwargs: Any) -> Any:
    with malformed_as_value_error():
        return original(manager, *args, **kwargs)


def _make_up_readable(original: Any, manager: Any, *args: Any, **kwargs: Any) -> Any:
    with malformed_as_value_error():
        made = original(manager, *args, **kwargs)
        _must_be_readable(made)
        return made


def _must_be_readable(made: Any) -> None:
    """Decode the request as a worker will, without processed media and timestamps: these are not from the client."""
    # Imported here: only a process that builds requests has loaded it.
    import msgspec
    from sglang.srt.managers import io_struct

    sent = copy.copy(made)
    sent.mm_inputs = sent.time_stats = None
    if io_struct._USE_PICKLE_IPC:  # then custom parameters may be any picklable object
        sent.sampling_params = copy.copy(made.sampling_params)
        sent.sampling_params.custom_params = None
    try:
        io_struct.msgpack_decode(io_struct.msgpack_encode(sent))
    except msgspec.MsgspecError as error:
        raise ValueError(f"malformed request: {error}") from error
