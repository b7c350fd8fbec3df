"""A campaign: thousands of requests against one server, and what must hold of it then.

No answer is a 5xx, the server lives, all its token slots come free, its first answers come again as they were, and its
processes hold no more memory than before.
"""

from __future__ import annotations

import collections
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from sglang_platform.conformance.host.fuzz.left_to_the_host import is_left
from sglang_platform.conformance.host.fuzz.sending import LEFT, send_together
from sglang_platform.conformance.host.fuzz.strategies import Request, requests
from sglang_platform.conformance.host.server import ServerAnswer, ServerProcess

__all__ = ["Campaign", "CampaignResult", "table"]

_AT_ONCE = 4
_STEADY = {"input_ids": [5, 17, 99, 256, 700], "sampling_params": {"temperature": 0, "max_new_tokens": 16}}
_QUIET_SECONDS = 60.0
_SLOTS = ("num_running_reqs", "num_queue_reqs", "num_used_tokens", "kv_used_tokens", "kv_available_tokens")


@dataclass
class CampaignResult:
    """What a campaign saw."""

    statuses: collections.Counter[tuple[str, int]] = field(default_factory=collections.Counter)
    failures: dict[tuple[str, int, str], Request] = field(default_factory=dict)
    """One request for each kind of failed answer: by path, status and the beginning of its words; the shortest."""

    dead: bool = False
    last: list[Request] = field(default_factory=list)
    """The requests that were sent last."""

    first_answers: list[str] = field(default_factory=list)
    """Steady answers before and after."""

    megabytes: list[float] = field(default_factory=list)
    """Resident memory of all the server's processes: after the first tenth of the requests, and at the end."""

    held: dict[str, float] = field(default_factory=dict)
    """Gauges of requests and token slots that are not as they were, once the server is quiet."""

    @property
    def sent(self) -> int:
        return sum(self.statuses.values())


class Campaign:
    """Sends `count` requests to a server that runs with `enable_metrics`; the same ones for the same `seed_`."""

    def __init__(
        self, server: ServerProcess, count: int, seed_: int, say: Callable[[str], None] = print
    ) -> None:
        self.server, self.count, self.seed, self.say = server, count, seed_, say
        self.outcome = CampaignResult()
        self._before: dict[str, float] = {}

    def run(self) -> CampaignResult:
        outcome = self.outcome
        outcome.first_answers.append(self._steady())
        self._before = self._quiet()
        examples = max(1, self.count // ((_AT_ONCE + 1) // 2))

        @seed(self.seed)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(requests(), min_size=1, max_size=_AT_ONCE))
        def ask(together: list[Request]) -> None:
            if not outcome.dead and outcome.sent < self.count:
                self._ask(together)

        ask()
        if not outcome.dead:
            outcome.held = self._held()
            outcome.megabytes.append(self.server.memory())
            outcome.first_answers.append(self._steady())
            outcome.dead = not self.server.alive
        return outcome

    def _ask(self, together: list[Request]) -> None:
        outcome = self.outcome
        outcome.last = [*outcome.last, *together][-3 * _AT_ONCE :]
        for request, answer in zip(together, send_together(self.server.port, together), strict=True):
            before = outcome.sent
            outcome.statuses[request.path, answer.status] += 1
            failed = answer.status == 0 or answer.status >= 500
            if failed and not is_left(request.path, answer.status, answer.body):
                self._failed(request, answer)
            if before < self.count // 10 <= outcome.sent:
                outcome.megabytes.append(self.server.memory())
            if outcome.sent % 500 == 0:
                self.say(f"{outcome.sent} requests")
        if not self.server.alive or any(failed[1] == 0 for failed in outcome.failures):
            outcome.dead = not self._answers()

    def _failed(self, request: Request, answer: ServerAnswer) -> None:
        words = re.sub(r"[0-9a-f]{16,}|\d+", "#", answer.body[:160])
        known = self.outcome.failures.get((request.path, answer.status, words))
        if known is None:
            self.say(f"{answer.status} {request.path} {request.body!r:.300} -> {answer.body[:300]}")
        if known is None or len(request.data() or b"") < len(known.data() or b""):
            self.outcome.failures[request.path, answer.status, words] = request

    def _answers(self) -> bool:
        return self.server.alive and self.server.post("/generate", _STEADY, timeout=60).status == 200

    def _steady(self) -> str:
        answer = self.server.post("/generate", _STEADY, timeout=60)
        return json.dumps(answer.json()["output_ids"]) if answer.status == 200 else f"status {answer.status}"

    def _quiet(self) -> dict[str, float]:
        """The gauges once all that runs is ended, the sessions are closed, and the cache holds one answer alone."""
        self.server.post("/abort_request", {"abort_all": True})
        for session in ("s0", "s1", "s2"):
            self.server.post("/close_session", {"session_id": session})
        self.server.post("/flush_cache", {})
        self._steady()  # gauges are written while the scheduler works
        return self._gauges()

    def _held(self) -> dict[str, float]:
        """Gauges that are not as they were before; waits for requests whose clients left."""
        until = time.monotonic() + _QUIET_SECONDS
        while True:
            now = self._quiet()
            held = {name: value for name, value in now.items() if value != self._before[name]}
            if not held or time.monotonic() > until:
                return held
            time.sleep(1)

    def _gauges(self) -> dict[str, float]:
        text = self.server.get("/metrics").body
        found = re.findall(r"^sglang:(\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found if name in _SLOTS}


def table(outcome: CampaignResult) -> str:
    """Endpoint by status, as a Markdown table."""
    codes = sorted({status for _, status in outcome.statuses})
    heads = ["left" if code == LEFT else "no answer" if code == 0 else str(code) for code in codes]
    lines = [f"| endpoint | {' | '.join(heads)} |", "|---" * (len(codes) + 1) + "|"]
    for path in sorted({path for path, _ in outcome.statuses}):
        counts: list[Any] = [outcome.statuses.get((path, code), 0) or "" for code in codes]
        lines.append(f"| {path} | {' | '.join(map(str, counts))} |")
    totals = [sum(n for (_, status), n in outcome.statuses.items() if status == code) for code in codes]
    lines.append(f"| all | {' | '.join(map(str, totals))} |")
    return "\n".join(lines)
