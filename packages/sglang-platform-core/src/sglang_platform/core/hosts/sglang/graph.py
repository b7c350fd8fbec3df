"""The host half of a decode graph runner: SGLang's batches, model and outputs.

Read from SGLang 0.5.23, `model_executor/cpu_graph_runner.py` and `forward_batch_info.py`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["HostDecodeBatches"]


class HostDecodeBatches:
    """What `GraphRunner` leaves to the host. Mixed in by re-basing; `self` is a `GraphRunner`."""

    model_runner: Any
    inputs: Any
    captured: dict[int, Any]
    max_bs: int

    def _batch_sizes(self) -> list[int]:
        from sglang.srt.runtime_context import get_exec

        configured = get_exec().graph.cuda_graph_config.decode.bs
        # Row 0 of the request pool is reserved, so no batch is larger than the pool.
        limit = self.model_runner.req_to_token_pool.size
        return [bs for bs in configured if bs <= limit] or [1]

    def _static_batch(self, bucket: int) -> Any:
        from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch, ForwardMode

        inputs = self.inputs
        batch = ForwardBatch(
            forward_mode=ForwardMode.DECODE,
            batch_size=bucket,
            input_ids=inputs.input_ids[:bucket],
            req_pool_indices=inputs.req_pool_indices[:bucket],
            seq_lens=inputs.seq_lens[:bucket],
            out_cache_loc=inputs.out_cache_loc[:bucket],
            seq_lens_sum=bucket * inputs.seq_len_fill_value,
            return_logprob=False,
            positions=inputs.positions[:bucket],
            mrope_positions=inputs.mrope_positions[:, :bucket],
            spec_algorithm=self.model_runner.spec_algorithm,
            spec_info=None,
            capture_hidden_mode=CaptureHiddenMode.NULL,
            global_forward_mode=ForwardMode.DECODE,
        )
        self.model_runner.kv_index_translator.bind_runner_slots(batch)
        return batch

    def _run_model(self, forward_batch: Any) -> Any:
        import torch
        from sglang.srt.model_executor.forward_context import ForwardContext, forward_context

        runner = self.model_runner
        context = ForwardContext(attn_backend=runner.attn_backend)
        with torch.no_grad(), forward_context(context, forward_batch=forward_batch):
            runner.attn_backend.init_forward_metadata_in_graph(forward_batch)
            return runner.model.forward(forward_batch.input_ids, forward_batch.positions, forward_batch)

    def can_run_graph(self, forward_batch: Any) -> bool:
        """A plain decode batch that fits: no hidden states, embeddings or adapters asked for."""
        from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode

        return bool(
            forward_batch.batch_size <= self.max_bs
            and forward_batch.capture_hidden_mode in (None, CaptureHiddenMode.NULL)
            and forward_batch.input_embeds is None
            and forward_batch.encoder_lens is None
            and not any(forward_batch.lora_ids or ())
        )

    def _take(self, output: Any, n: int) -> Any:
        from sglang.srt.layers.logits_processor import LogitsProcessorOutput

        return LogitsProcessorOutput(next_token_logits=output.next_token_logits[:n])
