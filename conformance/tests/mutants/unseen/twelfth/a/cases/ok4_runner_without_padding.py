"""Healthy: the graph runner replays batches of exactly the captured sizes and declines all others with a reason in the
log, as SGLang does with --disable-cuda-graph-padding. Batches that it declines run eagerly.
level: graphs
"""

from __future__ import annotations

import logging

from sglang_platform.conformance.reference.graph_runner import ReferenceGraphRunner
from sglang_platform.conformance.reference.platform import ReferencePlatform

_log = logging.getLogger(__name__)


class Runner(ReferenceGraphRunner):
    def can_run_graph(self, forward_batch):
        if not super().can_run_graph(forward_batch):
            return False
        rows = self._most_rows(forward_batch)
        if rows not in self.captured:
            _log.info("a batch of %d runs without a graph: only %s are captured", rows, self.capture_bs)
            return False
        return True


class Platform(ReferencePlatform):
    def get_graph_runner_cls(self):
        return Runner
