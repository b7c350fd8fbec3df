"""The host half of a decode graph runner: SGLang's batches, model and outputs.

Read from SGLang 0.5.11 to 0.5.23, `model_executor/cpu_graph_runner.py` and `forward_batch_info.py`.
"""

from __future__ import annotations

import functools
import operator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sglang_platform.core.registries.events import query_any
from sglang_platform.core.sglang.graphs.ranks_apart import RanksApart, attend_apart
from sglang_platform.core.sglang.host_classes import load
from sglang_platform.core.sglang.served_model import served_model
from sglang_platform.core.sglang.versions import facts

__all__ = ["HostDecodeBatches", "NoDecodeGraphs", "host_calls"]

# The class has this name in every release from 0.5.11 to 0.5.23.
_WITH_STATES = "sglang.srt.mem_cache.memory_pool:HybridReqToTokenPool"


class HostDecodeBatches:
    """The methods of `GraphRunner` that depend on the host. Mixed in by re-basing; `self` is a `GraphRunner`."""

    model_runner: Any
    device: Any
    inputs: Any
    stage: Any
    captured: dict[int, Any]
    max_bs: int
    drafts: int
    _captures: Any

    @functools.cached_property
    def apart(self) -> RanksApart | None:
        """The fields of static batches about the other ranks; None without data-parallel attention."""
        return RanksApart(self.device) if attend_apart(served_model().server_args) else None

    @functools.cached_property
    def adapters(self) -> bool:
        """True if graphs serve batches with LoRA adapters. The host's LoRA backend must prepare a batch in place,
        before `can_run_graph`, and must not read the batch's adapters while it computes."""
        init = facts().init_lora_of_graphs
        # In releases without it, a model runner that serves no adapter has no attribute for their manager either.
        if init is None or self.model_runner.lora_manager is None or self.drafts:
            return False
        manager = self.model_runner.lora_manager
        # On the CPU, `torch_native` reads its own offsets from host memory, and a capture cannot tell them from the
        # batch's.
        import torch  # as in `_stage_buffers`

        if torch.device(self.device).type == "cpu":
            return False
        if any(getattr(manager.lora_backend, flag) for flag in facts().lora_skips_batches):
            return False
        getattr(manager, init)(self.max_bs, 1)
        return True

    @functools.cached_property
    def _lora_without_graphs(self) -> bool:
        """True if layers with adapters read per-batch data that this release does not prepare for graphs."""
        return facts().init_lora_of_graphs is None and bool(getattr(self.model_runner, "lora_manager", None))

    def _state_pool(self) -> Any:
        requests = self.model_runner.req_to_token_pool
        return requests.mamba_pool if isinstance(requests, load(_WITH_STATES)) else None

    def _batch_sizes(self) -> list[int]:
        # Row 0 of the request pool is reserved, so no batch is larger than the pool.
        limit = self.model_runner.req_to_token_pool.size
        return [bs for bs in self._configured_sizes() if bs <= limit] or [1]

    def _configured_sizes(self) -> list[int]:
        function, attributes = facts().graph_sizes
        kept_in = self.model_runner if function is None else load(function)()
        return list(operator.attrgetter(attributes)(kept_in))

    def _stage_buffers(self) -> dict[str, Any]:
        """Buffers for the tensors of the previous pipeline stage, as SGLang's own runner expects them
        (`runner_utils/buffers.py`)."""
        runner = self.model_runner
        if runner.pp_group.is_first_rank or not runner.support_pp:
            return {}
        config = runner.model_config
        # Hyper-connections carry the residual inside the hidden states, which are wider in that case.
        wide = config.hc_hidden_size if facts().knows_hyper_connections else None
        widths = {"hidden_states": (wide or config.hidden_size,)}
        if not wide:
            widths["residual"] = (config.hidden_size,)
        indices = runner.get_pp_proxy_topk_size() if facts().hands_over_indices else None
        made = {name: self._rows(width, config.dtype) for name, width in widths.items()}
        if indices is not None:
            made["topk_indices"] = self._rows((indices,), "int32")
        blocks = runner.get_pp_proxy_residual_num_blocks() if facts().hands_over_blocks else None
        if blocks is not None:
            del made["residual"]
            made[facts().blocks_handed_over_as] = self._rows((blocks, config.hidden_size), config.dtype)
        return made

    def _rows(self, width: tuple[int, ...], dtype: Any) -> Any:
        import torch

        dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        return torch.zeros((self.max_bs, *width), dtype=dtype, device=self.device)

    def _most_rows(self, forward_batch: Any) -> int:
        return int(self.apart.most_rows(forward_batch) if self.apart else forward_batch.batch_size)

    def _static_batch(self, bucket: int) -> Any:
        from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

        inputs, runner = self.inputs, self.model_runner
        of_this_host: dict[str, Any] = {}
        if facts().batch_holds_pools:
            of_this_host = {
                "req_to_token_pool": runner.req_to_token_pool,
                "token_to_kv_pool": runner.token_to_kv_pool,
                "attn_backend": runner.attn_backend,
            }
        if self.apart:
            of_this_host |= self.apart.fields(bucket)
        tokens, mode = (
            bucket * inputs.tokens,
            ForwardMode.TARGET_VERIFY if self.drafts else ForwardMode.DECODE,
        )
        batch = ForwardBatch(
            forward_mode=mode,
            batch_size=bucket,
            input_ids=inputs.input_ids[:tokens],
            req_pool_indices=inputs.req_pool_indices[:bucket],
            seq_lens=inputs.seq_lens[:bucket],
            out_cache_loc=inputs.out_cache_loc[:tokens],
            seq_lens_sum=bucket * inputs.seq_len_fill_value,
            return_logprob=False,
            positions=inputs.positions[:tokens],
            mrope_positions=inputs.mrope_positions[:, :tokens],
            spec_algorithm=runner.spec_algorithm,
            spec_info=inputs.drafts(bucket) if self.drafts else None,
            capture_hidden_mode=self._hidden_mode(),
            global_forward_mode=mode,
            lora_ids=[None] * bucket if self.adapters or self._lora_without_graphs else None,
            **of_this_host,
        )
        if batch.lora_ids is not None:
            runner.lora_manager.prepare_lora_batch(batch)
        if facts().translates_slots:
            runner.kv_index_translator.bind_runner_slots(batch)
        return batch

    def _run_model(self, forward_batch: Any) -> Any:
        import torch

        runner = self.model_runner
        with torch.no_grad(), self._forward_context(forward_batch):
            runner.attn_backend.init_forward_metadata_in_graph(forward_batch)
            if self.apart:
                self.apart.announce(forward_batch)
            more = self._handed_over(forward_batch.batch_size)
            return runner.model.forward(
                forward_batch.input_ids, forward_batch.positions, forward_batch, **more
            )

    def _handed_over(self, n: int) -> dict[str, Any]:
        tensors = self.stage.rows(n)
        if not tensors:
            return {}
        from sglang.srt.model_executor.forward_batch_info import PPProxyTensors

        return {"pp_proxy_tensors": PPProxyTensors(tensors)}

    def _forward_context(self, forward_batch: Any) -> AbstractContextManager[Any]:
        if not facts().forward_context:
            return nullcontext()
        from sglang.srt.model_executor.forward_context import ForwardContext, forward_context

        context = ForwardContext(attn_backend=self.model_runner.attn_backend)
        if facts().context_takes_batch:
            return forward_context(context, forward_batch=forward_batch)  # type: ignore[no-any-return]
        return forward_context(context)  # type: ignore[no-any-return]

    def _drafts(self) -> tuple[int, bool]:
        runner = self.model_runner
        if runner.spec_algorithm is None or runner.spec_algorithm.is_none():
            return 0, False
        if not facts().speculative_kernels:
            return 0, False
        chain = not runner.spec_algorithm.is_ngram() and runner.server_args.speculative_eagle_topk == 1
        return int(runner.server_args.speculative_num_draft_tokens), not chain

    def _hidden_mode(self) -> Any:
        """The hidden-state capture mode of all batches: FULL for a draft model that continues the target's hidden
        states."""
        from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode

        algorithm, asked = self.model_runner.spec_algorithm, facts().server_hidden_mode
        if self.drafts and not algorithm.is_ngram() and not algorithm.is_standalone():
            return CaptureHiddenMode.FULL
        return CaptureHiddenMode.NULL if asked is None else load(asked)()

    def can_run_graph(self, forward_batch: Any) -> bool:
        """True for a batch of the captured mode that fits a bucket.

        It must request the hidden states that were captured, have no input embeddings, and use adapters only if the
        graphs were captured with them. Under data-parallel attention all ranks return the same."""
        captured = self.apart.agreed if self.apart else lambda batch: self._captures(batch.forward_mode)
        return bool(
            captured(forward_batch)
            and self._most_rows(forward_batch) <= self.max_bs
            and forward_batch.capture_hidden_mode in (None, self._hidden_mode())
            and forward_batch.input_embeds is None
            and forward_batch.encoder_lens is None
            and (self.adapters or not any(forward_batch.lora_ids or ()))
            and not query_any("query_run_eagerly", forward_batch)
        )

    def _take(self, output: Any, n: int) -> Any:
        if not self.model_runner.pp_group.is_last_rank:
            return output[:n]
        from sglang.srt.layers.logits_processor import LogitsProcessorOutput

        hidden = output.hidden_states
        return LogitsProcessorOutput(
            next_token_logits=output.next_token_logits[:n],
            hidden_states=None if hidden is None else hidden[:n],
        )


class NoDecodeGraphs:
    """A graph runner that captures nothing: SGLang asks it at each step and runs the model eagerly."""

    bs = 0
    capture_bs: tuple[int, ...] = ()

    def __init__(self, model_runner: Any) -> None:
        self.model_runner = model_runner

    def can_run_graph(self, forward_batch: Any) -> bool:
        """Always False."""
        return False

    can_run = can_run_graph

    def capture(self) -> None:
        """Nothing is captured, before or after a weight update."""


@functools.cache
def host_calls(question: str, replay: str) -> type | None:
    """A mixin with the host's names for `can_run_graph` and `execute`; None if the host uses these names.

    The mixin ignores the argument that a host passes between the batch and the proxy tensors of its pipeline stage.
    """
    if (question, replay) == ("can_run_graph", "execute"):
        return None

    def ask(self: Any, forward_batch: Any) -> bool:
        return bool(self.can_run_graph(forward_batch))

    def run(
        self: Any, forward_batch: Any, skip_attn_backend_init: bool = False, pp_proxy_tensors: Any = None
    ) -> Any:
        return self.execute(forward_batch, pp_proxy_tensors)

    return type("HostCalls", (), {question: ask, replay: run, "__module__": __name__})
