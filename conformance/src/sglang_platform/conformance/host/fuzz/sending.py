"""Sending requests as clients do, several at once, some of whom leave before the answer."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sglang_platform.conformance.host.fuzz.strategies import Request
from sglang_platform.conformance.host.server import ServerAnswer

__all__ = ["LEFT", "send", "send_together"]

LEFT = -1
"""In place of a status: the client left first."""

_PATIENCE = 60.0


def send(port: int, request: Request, patience: float = _PATIENCE) -> ServerAnswer:
    """The answer to one request, a stream read to its end; status 0 where there is none, LEFT where the client left."""
    wait = patience if request.leaves_after is None else request.leaves_after
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=wait)
    try:
        connection.request(request.method, request.path, request.data(), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return ServerAnswer(response.status, response.read().decode(errors="replace"))
    except TimeoutError as error:
        return ServerAnswer(
            0 if request.leaves_after is None else LEFT, f"no answer within {wait} s: {error}"
        )
    except (OSError, http.client.HTTPException) as error:
        return ServerAnswer(0, f"{type(error).__name__}: {error}")
    finally:
        connection.close()


def send_together(port: int, requests: Sequence[Request]) -> list[ServerAnswer]:
    """The answers to requests that are sent at the same time, in order."""
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda one: send(port, one), requests))
