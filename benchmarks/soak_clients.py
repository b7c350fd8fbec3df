"""The clients of `soak.py`: each asks, one request after the other, and some leave or abort; one steers the server."""

from __future__ import annotations

import collections
import http.client
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from soak_asked import Asked, Model, draw

from sglang_platform.conformance.host.server import ServerProcess

__all__ = ["Clients", "Seen"]

_PATIENCE = 180.0
_KEPT = 40
_EVERY = {"busy flush": 7.0, "weights": 31.0, "quiet flush": 41.0, "abort all": 53.0}
"""Seconds. SGLang flushes only while nothing runs; so it is asked at any time, and once no client asks."""

_NOT_FLUSHED = "Weights were updated, but the cache was not flushed"
"""What SGLang answers to an update while its scheduler still has a request whose client left: from then on the new
weights serve under the old version's name, over what the old ones cached."""


@dataclass
class Seen:
    """Counts by what was asked and how it ended: `right`, `aborted`, `left`, `refused`, `wrong`, `no answer`,
    `of mixed weights` (wrong, between an update that SGLang called half done and its repetition); and the faults."""

    ended: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    adapted: int = 0
    """Answers with an adapter that were right."""

    faults: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Of each answer."""

    slowest: float = 0.0


class Clients:
    """`count` threads that ask until `stop`, and with `steer` one that flushes, aborts and updates weights."""

    def __init__(
        self,
        server: ServerProcess,
        model: Model,
        count: int,
        *,
        seed: int = 0,
        steer: bool = True,
        adapters: bool = True,
    ) -> None:
        self.seen = Seen()
        self._server, self._model, self._adapters = server, model, adapters
        self._stopped, self._lock = threading.Event(), threading.Lock()
        self._open = threading.Event()
        self._open.set()
        self._updating, self._mixed = threading.Lock(), list[tuple[float, float]]()
        self._threads = [
            threading.Thread(
                target=self._ask, args=(number, random.Random(seed * 1000 + number)), daemon=True
            )
            for number in range(count)
        ]
        self._threads += [threading.Thread(target=self._steer, daemon=True)] if steer else []
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when every client has its last answer; those that have none after three minutes are a fault."""
        self._stopped.set()
        self._open.set()
        until = time.monotonic() + _PATIENCE + 30
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        hanging = sum(thread.is_alive() for thread in self._threads)
        if hanging:
            self._note("client", "no answer", f"{hanging} clients still wait for an answer")

    def _note(self, kind: str, ending: str, fault: str | None = None, seconds: float | None = None) -> None:
        with self._lock:
            self.seen.ended[kind, ending] += 1
            if fault and len(self.seen.faults) < _KEPT:
                self.seen.faults.append(f"{kind}: {fault}")
            if seconds is not None:
                self.seen.seconds.append(seconds)

    def _ask(self, number: int, source: random.Random) -> None:
        turn = 0
        while self._open.wait() and not self._stopped.is_set():
            turn += 1
            asked = draw(self._model, source, f"soak-{number}-{turn}", adapters=self._adapters)
            start = time.monotonic()
            status, body = self._sent(asked)
            if status is None:
                self._note(asked.kind, "left")
                continue
            try:
                fault = asked.judge(status, body)
            except (ValueError, KeyError, TypeError, IndexError) as error:
                fault = f"{type(error).__name__} {error} in {body[:300]}"
            seconds = time.monotonic() - start
            if fault is None or fault == "aborted":
                self._note(asked.kind, fault or "right", seconds=seconds)
                if asked.adapter and fault is None:
                    with self._lock:
                        self.seen.adapted += 1
            elif status == 200 and self._of_mixed_weights(start):
                self._note(asked.kind, "of mixed weights", seconds=seconds)
            else:
                self._note(asked.kind, "no answer" if status == 0 else "wrong", fault, seconds)
                if status == 0:
                    self._stopped.wait(1)

    def _of_mixed_weights(self, start: float) -> bool:
        """Of an answer that came now to what was asked at `start`."""
        end = time.monotonic()
        with self._updating:  # an update tells only at its end that it was a half one
            return any(first <= end and start <= last for first, last in self._mixed)

    def _sent(self, asked: Asked) -> tuple[int | None, str]:
        """Status and body; None where the client left first, 0 where there is no answer."""
        leaves = asked.kind == "left"
        wait = asked.after if leaves and asked.after else _PATIENCE
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=wait)
        data = asked.body if isinstance(asked.body, bytes) else json.dumps(asked.body).encode()
        try:
            connection.request("POST", asked.path, data, {"Content-Type": "application/json"})
            if asked.kind == "aborted" and asked.after:
                self._stopped.wait(asked.after)
                self._server.post("/abort_request", {"rid": asked.rid})
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            return (None if leaves else 0), f"{type(error).__name__}: {error}"
        finally:
            connection.close()

    def _steer(self) -> None:
        due, start, turn = dict(_EVERY), time.monotonic(), 0
        while not self._stopped.wait(0.2):
            for name in [one for one, at in due.items() if time.monotonic() - start >= at]:
                due[name] = time.monotonic() - start + _EVERY[name]
                if name == "weights":
                    turn += 1
                    self._update_weights(Model.versions[turn % 2])
                elif name == "quiet flush":
                    self._open.clear()
                    self._command(name, f"/flush_cache?timeout={_PATIENCE:.0f}", {})
                    self._open.set()
                elif name == "busy flush":
                    self._command(name, "/flush_cache", {}, may_refuse=True)
                else:
                    self._command(name, "/abort_request", {"rid": "", "abort_all": True})

    def _command(self, name: str, path: str, body: dict[str, Any], *, may_refuse: bool = False) -> None:
        answer = self._server.post(path, body, timeout=_PATIENCE + 30)
        refused = may_refuse and answer.status == 400
        ending = "right" if answer.status == 200 else "refused" if refused else "wrong"
        self._note(name, ending, f"{answer.status} {answer.body[:200]}" if ending == "wrong" else None)

    def _update_weights(self, version: str) -> None:
        asked: dict[str, Any] = {
            "model_path": str(self._model.checkpoints[version]),
            "weight_version": version,
        }
        with self._updating:
            start = time.monotonic()
            answer = self._server.post("/update_weights_from_disk", asked, timeout=_PATIENCE)
            seconds = time.monotonic() - start
            if answer.status == 400 and _NOT_FLUSHED in answer.body:
                self._note("weights", "not flushed")
                self._open.clear()
                self._command("flush after weights", f"/flush_cache?timeout={_PATIENCE:.0f}", {})
                answer = self._server.post("/update_weights_from_disk", asked, timeout=_PATIENCE)
                self._mixed.append((start, time.monotonic()))
                self._open.set()
        ok = answer.status == 200
        self._note(
            "weights", "right" if ok else "wrong", None if ok else f"{answer.status} {answer.body[:200]}"
        )
        with self._lock:
            self.seen.slowest = max(self.seen.slowest, seconds)
