"""The decode graph runner: buckets of batch sizes, static inputs, capture once, replay every step.

This module holds the part that all devices share. A device writes `record`: run a function once under capture and
return an object with `replay()`. The scheme is that of CUDA graphs as SGLang 0.5.23's `CPUGraphRunner` and
`DecodeCudaGraphRunner` use it: inputs live in static buffers, a batch is padded up to the next bucket, padded rows read
and write only the reserved slot 0.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sglang_platform.core.attention.batch import ForwardBatch, ForwardMode
from sglang_platform.core.attention.speculative import tree_mask
from sglang_platform.core.contract.parts import Part
from sglang_platform.core.counters import counter
from sglang_platform.core.errors import PlatformError
from sglang_platform.core.graph.stage import StageInputs

if TYPE_CHECKING:
    import torch

__all__ = ["CapturedBatch", "DecodeInputs", "Drafts", "Graph", "GraphRunner"]


_replays = counter("graph.replays")
_without = counter("graph.without_graph")


class Graph(Protocol):
    """A captured computation. `replay()` recomputes the captured outputs in place from the static inputs."""

    def replay(self) -> None: ...


class Drafts(NamedTuple):
    """The draft fields of a batch to verify, named as in the host's `spec_info`.

    draft_token_num: tokens per request. custom_mask: bool [B * n * n], the attention mask among drafts; None for
    chains.
    """

    draft_token_num: int
    custom_mask: torch.Tensor | None = None
    topk: int = -1


class DecodeInputs:
    """The static input buffers that all buckets share; a bucket of `b` sees the first `b` rows.

    `req_pool_indices`, `seq_lens`: int64 [max_bs]; `input_ids`, `out_cache_loc`, `positions`: int64 [max_bs * tokens];
    `mrope_positions`: int64 [3, max_bs * tokens]; `tree`: bool [max_bs, tokens, tokens] where drafts form trees.
    """

    def __init__(
        self, max_bs: int, seq_len_fill_value: int, device: Any, *, tokens: int = 1, trees: bool = False
    ) -> None:
        import torch

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int64, device=device)

        self.seq_len_fill_value = seq_len_fill_value
        self.tokens = tokens
        self.input_ids = zeros(max_bs * tokens)
        self.req_pool_indices = zeros(max_bs)
        self.seq_lens = torch.full((max_bs,), seq_len_fill_value, dtype=torch.int64, device=device)
        self.out_cache_loc = zeros(max_bs * tokens)
        self.positions = zeros(max_bs * tokens)
        self.mrope_positions = zeros(3, max_bs * tokens)
        self._alone = torch.eye(tokens, dtype=torch.bool, device=device) if trees else None
        self.tree = None if self._alone is None else self._alone.repeat(max_bs, 1, 1)

    def load(self, forward_batch: Any, bucket: int) -> None:
        """Copy a live batch of B <= `bucket` rows in and reset rows B to `bucket` to padding."""
        n = forward_batch.batch_size
        t = n * self.tokens
        self.input_ids[:t].copy_(forward_batch.input_ids)
        self.req_pool_indices[:n].copy_(forward_batch.req_pool_indices)
        self.seq_lens[:n].copy_(forward_batch.seq_lens)
        self.out_cache_loc[:t].copy_(forward_batch.out_cache_loc)
        self.positions[:t].copy_(forward_batch.positions)
        if forward_batch.mrope_positions is not None:
            self.mrope_positions[:, :t].copy_(forward_batch.mrope_positions)
        mask = None if self.tree is None else tree_mask(forward_batch)
        if self.tree is not None and mask is not None:
            self.tree[:n].copy_(mask)
        if n < bucket:
            self.input_ids[t : bucket * self.tokens].zero_()
            self.req_pool_indices[n:bucket].zero_()
            self.seq_lens[n:bucket].fill_(self.seq_len_fill_value)
            self.out_cache_loc[t : bucket * self.tokens].zero_()
            self.positions[t : bucket * self.tokens].zero_()
            if self.tree is not None:
                self.tree[n:bucket] = self._alone

    def clear(self) -> None:
        """Reset every row to padding."""
        for buffer in (self.input_ids, self.req_pool_indices, self.out_cache_loc, self.positions):
            buffer.zero_()
        self.mrope_positions.zero_()
        self.seq_lens.fill_(self.seq_len_fill_value)
        if self.tree is not None:
            self.tree[:] = self._alone

    def drafts(self, bucket: int) -> Drafts:
        """The draft fields of this bucket's static batch."""
        if self.tree is None:
            return Drafts(self.tokens, topk=1)
        return Drafts(self.tokens, self.tree[:bucket].view(-1))


class CapturedBatch(NamedTuple):
    """One bucket: its graph, the static batch the graph reads, and the output object the graph writes."""

    graph: Graph
    forward_batch: Any
    output: Any


class GraphRunner(Part):
    """Captures one graph per batch-size bucket and replays it for decode steps, or for the steps that verify drafts
    where the host decodes speculatively.

    The host builds it once per worker after the weights are loaded, asks `can_run_graph(batch)` for each decode step,
    and calls `execute(batch)` when that says yes. `capture_bs` lists the buckets, `bs` is the bucket last replayed.
    """

    def __init__(self, model_runner: Any) -> None:
        self.model_runner = model_runner
        self.device = model_runner.device
        self.capture_bs: list[int] = sorted(set(self._batch_sizes()))
        if not self.capture_bs or self.capture_bs[0] < 1:
            raise ValueError(
                f"{type(self).__name__} needs batch sizes of 1 or more to capture, got {self.capture_bs}"
            )
        self.max_bs = self.capture_bs[-1]
        self.bs = 0
        backend = model_runner.attn_backend
        self.drafts, trees = self._drafts()
        tokens = self.drafts or 1
        backend.init_cuda_graph_state(self.max_bs, self.max_bs * tokens)
        fill = backend.get_cuda_graph_seq_len_fill_value()
        self.inputs = DecodeInputs(self.max_bs, fill, self.device, tokens=tokens, trees=trees)
        self.stage = StageInputs(self._stage_buffers())
        self.captured: dict[int, CapturedBatch] = {}
        self.capture()

    def record(self, run: Callable[[], Any]) -> tuple[Graph, Any]:
        """Call `run()` once under capture; return the graph and the output `run` returned.

        The output's tensors must be the ones that each `replay()` writes. Written by the device.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.record() must be implemented: capture run() and return a graph"
        )

    def capture(self) -> None:
        """Capture every bucket, the largest first so that smaller ones can reuse its memory.

        Called by the host again, through a new runner, after weights were replaced.
        """
        self.inputs.clear()
        self.captured.clear()
        for bucket in reversed(self.capture_bs):
            batch = self._static_batch(bucket)
            self._prepare(batch, in_capture=True)
            self._run_model(batch)  # warm-up: lazy initialisation must not be recorded
            graph, output = self.record(partial(self._run_model, batch))
            self.captured[bucket] = CapturedBatch(graph, batch, output)

    def can_run_graph(self, forward_batch: Any) -> bool:
        """Whether `execute` can serve this batch: of the captured mode, and no larger than the largest bucket."""
        fits = self._most_rows(forward_batch) <= self.max_bs
        return bool(self._captures(forward_batch.forward_mode) and fits)

    def load_batch(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> None:
        """Called by the host before `execute`; does nothing, since `execute` loads the batch."""

    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:
        """Replay the smallest bucket that holds the batch and return the first B rows of its output.

        `pp_proxy_tensors` holds the tensors of the previous pipeline stage: `tensors`, by name, each [B, ...]. If their
        names or shapes are not those of the capture, the step runs without its graph. A stage that is not the last
        returns the tensors for the next stage; they stay valid until the next step.
        """
        n = forward_batch.batch_size
        self.bs = self.capture_bs[bisect.bisect_left(self.capture_bs, self._most_rows(forward_batch))]
        captured = self.captured[self.bs]
        received = {} if pp_proxy_tensors is None else pp_proxy_tensors.tensors
        self.inputs.load(forward_batch, self.bs)
        if not self.stage.fits(received):
            return self._without_graph(forward_batch, received, captured.forward_batch)
        self.stage.load(received, self.bs)
        self._prepare(captured.forward_batch, in_capture=False)
        captured.graph.replay()
        _replays.add()
        return self._take(captured.output, n * self.inputs.tokens)

    def _without_graph(self, forward_batch: Any, received: Mapping[str, Any], static_batch: Any) -> Any:
        """Run one step eagerly, on the static inputs and on new stage buffers for the received tensors."""
        if not received:
            raise PlatformError(
                f"{type(self).__name__}: a decode step of a later pipeline stage came without its tensors",
                why=f"the capture reads {sorted(self.stage.buffers)}, which the stage before hands over",
                fix="pass pp_proxy_tensors to execute(), or serve without graphs (--disable-cuda-graph)",
            )
        _without.add()
        captured_for, self.stage = self.stage, StageInputs.like(received, self.bs)
        try:
            self.stage.load(received, self.bs)
            self._prepare(static_batch, in_capture=False)
            rows = forward_batch.batch_size * self.inputs.tokens
            return self._take(self._run_model(static_batch), rows)
        finally:
            self.stage = captured_for

    def clear_states(self) -> None:
        """Zero the recurrent states of all requests, as before the first request: each run of such a model changes
        them. Does nothing for a model without."""
        pool = self._state_pool()
        if pool is not None:
            for state in (*pool.mamba_cache.conv, pool.mamba_cache.temporal):
                state.zero_()

    def _captures(self, mode: Any) -> bool:
        return bool(mode.is_target_verify() if self.drafts else mode.is_decode())

    def _prepare(self, forward_batch: Any, *, in_capture: bool) -> None:
        self.model_runner.attn_backend.init_forward_metadata_out_graph(forward_batch, in_capture=in_capture)

    # The adapter overrides the methods below with the host's own objects.

    def _state_pool(self) -> Any:
        """The pool of recurrent states; None for a model without."""
        return None

    def _batch_sizes(self) -> list[int]:
        """The buckets to capture."""
        return list(self.model_runner.graph_batch_sizes)

    def _stage_buffers(self) -> Mapping[str, torch.Tensor]:
        """Buffers of `max_bs` rows for the tensors of the previous pipeline stage; empty on a first or only stage."""
        return {}

    def _drafts(self) -> tuple[int, bool]:
        """The draft tokens per request of a captured batch (0 for plain decode), and whether they may form a tree."""
        return 0, False

    def _most_rows(self, forward_batch: Any) -> int:
        """Rows that the bucket must hold: the batch's own, or more where several ranks replay together."""
        return int(forward_batch.batch_size)

    def _static_batch(self, bucket: int) -> Any:
        """A batch of `bucket` rows whose tensors are views of the static inputs."""
        inputs, t = self.inputs, bucket * self.inputs.tokens
        return ForwardBatch(
            forward_mode=ForwardMode.TARGET_VERIFY if self.drafts else ForwardMode.DECODE,
            batch_size=bucket,
            input_ids=inputs.input_ids[:t],
            positions=inputs.positions[:t],
            mrope_positions=inputs.mrope_positions[:, :t],
            req_pool_indices=inputs.req_pool_indices[:bucket],
            seq_lens=inputs.seq_lens[:bucket],
            out_cache_loc=inputs.out_cache_loc[:t],
            spec_info=inputs.drafts(bucket) if self.drafts else None,
        )

    def _run_model(self, forward_batch: Any) -> Any:
        """The model's forward on a static batch and the static inputs of its stage, metadata recorded with it."""
        self.model_runner.attn_backend.init_forward_metadata_in_graph(forward_batch)
        handed_over = self.stage.rows(forward_batch.batch_size)
        more = {"pp_proxy_tensors": handed_over} if handed_over else {}
        return self.model_runner.model.forward(
            forward_batch.input_ids, forward_batch.positions, forward_batch, **more
        )

    def _take(self, output: Any, n: int) -> Any:
        """The first `n` rows of a captured output, a row for each token."""
        return output[:n]
