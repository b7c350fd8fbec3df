"""A coordinator that counts the requests that the scheduler admits, and the batches it finishes."""

from __future__ import annotations

from typing import Any

from sglang_platform.core import counter

_admitted = counter("registries_plugin.admission.requests")
_batches = counter("registries_plugin.admission.batches")


class AdmissionCounter:
    """One per scheduler. `admitted` maps each request's id to the length of its prompt in tokens."""

    def __init__(self, scheduler: Any) -> None:
        self.admitted: dict[str, int] = {}

    def on_request_admitted(self, req: Any) -> None:
        self.admitted[req.rid] = len(req.origin_input_ids)
        _admitted.add()

    def on_batch_done(self, batch: Any, result: Any) -> None:
        _batches.add()
