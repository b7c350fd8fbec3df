"""Answers a client's errors with status 400, where SGLang answers 500.

Most endpoints convert a ValueError to a 400 themselves. For the others (an unknown parser name, an empty conversation),
an exception handler of the application, which all endpoints share, does. Seen in SGLang 0.5.11 to 0.5.23:
`entrypoints/http_server.py`, `entrypoints/openai/serving_tokenize.py`, `entrypoints/ollama/serving.py`, and scores in
`managers/tokenizer_manager.py`.
"""

from __future__ import annotations

import importlib
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_SERVER = "sglang.srt.entrypoints.http_server"
_DETOKENIZE = "sglang.srt.entrypoints.openai.serving_tokenize:OpenAIServingDetokenize"
_TOKENIZE = "sglang.srt.entrypoints.openai.serving_tokenize:OpenAIServingTokenize"
_OLLAMA_CHAT = "sglang.srt.entrypoints.ollama.serving:OllamaServing.handle_chat"
_SCORE = "sglang.srt.managers.tokenizer_manager:TokenizerManager.score_request"
_LARGEST_ID = 2**32 - 1  # the largest id that a tokenizer accepts


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register a ValueError handler before the application serves, with a single tokenizer process."""
    soft(
        f"{_SERVER}:_setup_and_run_http_server", _teach, HookType.BEFORE,
        without="some errors of a client are answered with status 500 instead of 400",
    )  # fmt: skip
    soft(
        f"{_DETOKENIZE}._convert_to_internal_request", _check_ids, HookType.BEFORE,
        without="/detokenize answers a token id that does not exist with status 500",
    )  # fmt: skip
    soft(
        f"{_TOKENIZE}._handle_non_streaming_request", _within_64_bits, HookType.AROUND,
        without="/tokenize may fail with a tokenizer that knows no longest text",
    )  # fmt: skip
    soft(
        _OLLAMA_CHAT, _check_conversation, HookType.BEFORE,
        without="/api/chat answers an empty conversation with status 500",
    )  # fmt: skip
    soft(
        _SCORE, _check_labels, HookType.BEFORE,
        without="/v1/score answers an empty list of labels with status 500",
    )  # fmt: skip


def _teach(*args: Any, **kwargs: Any) -> None:
    server = importlib.import_module(_SERVER)

    async def answer(request: Any, error: Exception) -> Any:
        return server._create_error_response(error)

    server.app.add_exception_handler(ValueError, answer)


def _check_ids(serving: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    lists = request.tokens if request.tokens and isinstance(request.tokens[0], list) else [request.tokens]
    for ids in lists:
        for one in ids:
            if not isinstance(one, int) or not 0 <= one <= _LARGEST_ID:
                raise ValueError(f"{str(one)[:40]} is no token id")


async def _within_64_bits(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace a `max_model_len` of 10**30 (a tokenizer without a limit), which some releases cannot encode as JSON."""
    answer = await original(*args, **kwargs)
    if getattr(answer, "max_model_len", 0) >= 2**63:
        answer.max_model_len = -1  # SGLang's value for a tokenizer without the attribute
    return answer


def _check_conversation(serving: Any, request: Any, *args: Any, **kwargs: Any) -> None:
    # With an empty list, chat templates fail in some versions of transformers.
    if not request.messages:
        raise ValueError("messages is empty: a conversation has one message or more")


def _check_labels(manager: Any, *args: Any, label_token_ids: Any = None, **kwargs: Any) -> None:
    # With an empty list, releases up to 0.5.22 read label log probabilities that were never requested.
    if label_token_ids == []:
        raise ValueError("label_token_ids is empty: a score is one of a token")
