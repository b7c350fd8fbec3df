"""Answers a client's errors with status 400, where SGLang answers 500.

Most endpoints convert a ValueError to a 400 themselves. For the others (an unknown parser name, an empty conversation),
an exception handler of the application, which all endpoints share, does. An endpoint that answers 500 itself is left to
SGLang. Seen in SGLang 0.5.11 to 0.5.23: `entrypoints/http_server.py`, `entrypoints/openai/serving_tokenize.py`.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.registration import soft
from sglang_platform.core.sglang.repairs.request_check import MALFORMED
from sglang_platform.core.sglang.versions import HostFacts

__all__ = ["register_hooks"]

_logger = logging.getLogger(__name__)

_SERVER = "sglang.srt.entrypoints.http_server"
_TOKENIZE = "sglang.srt.entrypoints.openai.serving_tokenize:OpenAIServingTokenize"


def register_hooks(platform: Any, host: HostFacts) -> None:
    """Register the exception handlers before the application serves, with a single tokenizer process."""
    soft(
        f"{_SERVER}:_setup_and_run_http_server", _teach, HookType.BEFORE,
        without="some errors of a client are answered with status 500 instead of 400",
    )  # fmt: skip
    soft(
        f"{_TOKENIZE}._handle_non_streaming_request", _within_64_bits, HookType.AROUND,
        without="/tokenize may fail with a tokenizer that knows no longest text",
    )  # fmt: skip


def _teach(*args: Any, **kwargs: Any) -> None:
    server = importlib.import_module(_SERVER)

    async def answer(request: Any, error: Exception) -> Any:
        if not isinstance(error, ValueError):  # it may be a fault of the server after all
            _logger.error(
                "a request to %s failed, and is answered with 400", request.url.path, exc_info=error
            )
        return server._create_error_response(error)

    for kind in (ValueError, *MALFORMED):
        server.app.add_exception_handler(kind, answer)


async def _within_64_bits(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace a `max_model_len` of 10**30 (a tokenizer without a limit), which some releases cannot encode as JSON."""
    answer = await original(*args, **kwargs)
    if getattr(answer, "max_model_len", 0) >= 2**63:
        answer.max_model_len = -1  # SGLang's value for a tokenizer without the attribute
    return answer
