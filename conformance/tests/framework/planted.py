"""The example device with one defect in one of its parts, for each part; all else of it is healthy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from sglang_platform.core.distributed.torch_group import TorchGroupCommunicator
from sglang_platform.core.ops.fused_op import RMSNorm, RotaryEmbedding, SiluAndMul
from sglang_platform.example_oot import kv_pools, op_calls, ops
from sglang_platform.example_oot.allocator import ExampleOOTPagedAllocator
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
from sglang_platform.example_oot.platform import DISPATCH_KEY, ExampleOOTPlatform


class _WithPool(ExampleOOTPlatform):
    _kind, _pool = "mha", kv_pools.ExampleOOTMHAPool

    def get_kv_pool_cls(self, *, kind: str) -> type | None:
        return self._pool if kind == self._kind else super().get_kv_pool_cls(kind=kind)


class PageShort(_WithPool):
    """The buffers have no rows for the padding page."""

    class _pool(kv_pools.ExampleOOTMHAPool):
        def _zeros(self, slots: int, head_dim: int) -> torch.Tensor:
            return super()._zeros(slots - self.page_size, head_dim)


class RowBeside(_WithPool):
    """Keys are stored one row beside."""

    class _pool(kv_pools.ExampleOOTMHAPool):
        def _store_kv_layer(
            self, layer_idx: int, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
        ) -> None:
            super()._store_kv_layer(layer_idx, (loc - 1).clamp(min=0), cache_k, cache_v)


class LatentCut(_WithPool):
    """The rotated part of a latent row is left out."""

    _kind = "mla"

    class _pool(kv_pools.ExampleOOTMLAPool):
        def _scatter_mla_rows(self, dst_buffer: Any, loc: Any, cache_k_nope: Any, cache_k_rope: Any) -> None:
            super()._scatter_mla_rows(dst_buffer, loc, cache_k_nope, torch.zeros_like(cache_k_rope))


class _WithAttention(ExampleOOTPlatform):
    _backend = ExampleOOTAttentionBackend

    def get_attention_backends(self) -> dict[str, Any]:
        return dict.fromkeys(super().get_attention_backends(), self._backend)


class WideOutput(_WithAttention):
    """Attention answers in float64."""

    class _backend(ExampleOOTAttentionBackend):
        def forward_decode(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            return super().forward_decode(*args, **kwargs).double()

        def forward_extend(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            return super().forward_extend(*args, **kwargs).double()


class LastTokenUnread(_WithAttention):
    """A decode step does not see its own token."""

    class _backend(ExampleOOTAttentionBackend):
        def forward_decode(
            self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, *args: Any, **kwargs: Any
        ) -> Any:
            shorter = SimpleNamespace(**vars(forward_batch))
            shorter.seq_lens = (forward_batch.seq_lens - 1).clamp(min=1)
            return super().forward_decode(q, k, v, layer, shorter, *args, **kwargs)


class SinkTwice(_WithAttention):
    """Sinks are counted twice."""

    class _backend(ExampleOOTAttentionBackend):
        def forward(self, *args: Any, sinks: torch.Tensor | None = None, **kwargs: Any) -> Any:
            if sinks is not None:
                kwargs["sinks"] = sinks + 0.6931
            return super().forward(*args, **kwargs)


class AliasedOutput(_WithAttention):
    """Steps of one shape are answered in one tensor."""

    class _backend(ExampleOOTAttentionBackend):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            out = super().forward(*args, **kwargs)
            kept = self.__dict__.setdefault("_kept", {})
            return kept.setdefault((out.shape, out.dtype), out).copy_(out)


class _WithRunner(ExampleOOTPlatform):
    _runner = ExampleOOTGraphRunner

    def get_graph_runner_cls(self) -> type | None:
        return self._runner


class NoReplay(_WithRunner):
    """A replay does nothing."""

    class _runner(ExampleOOTGraphRunner):
        def capture(self) -> None:
            super().capture()
            for size, captured in self.captured.items():
                self.captured[size] = captured._replace(graph=SimpleNamespace(replay=lambda: None))


class StaleInput(_WithRunner):
    """A replay reads the positions of the first one."""

    class _runner(ExampleOOTGraphRunner):
        def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:
            whole = self.inputs.load

            def load(batch: Any, bucket: int) -> None:
                positions = self.inputs.positions.clone()
                whole(batch, bucket)
                self.inputs.positions.copy_(positions)

            self.inputs.load = load  # type: ignore[method-assign]
            try:
                return super().execute(forward_batch, pp_proxy_tensors)
            finally:
                del self.inputs.load


class BucketTooSmall(_WithRunner):
    """A batch of three is replayed with the graph of two."""

    class _runner(ExampleOOTGraphRunner):
        def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:
            self.captured[4] = self.captured[2]
            return super().execute(forward_batch, pp_proxy_tensors)


class _WithAllocator(ExampleOOTPlatform):
    _allocator = ExampleOOTPagedAllocator

    def get_paged_allocator_cls(self) -> type | None:
        return self._allocator


class SlotTwice(_WithAllocator):
    """Every second page is lent again."""

    class _allocator(ExampleOOTPagedAllocator):
        def alloc(self, need_size: int) -> torch.Tensor | None:
            before = self.available_size()
            slots = super().alloc(need_size)
            if slots is not None and before // self.page_size % 2:
                self.free(slots)
            return slots


class SlotsLost(_WithAllocator):
    """The last page of a free is lost."""

    class _allocator(ExampleOOTPagedAllocator):
        def free(self, free_index: torch.Tensor) -> None:
            super().free(free_index[: -self.page_size])


class _WithOps(ExampleOOTPlatform):
    _forwards: dict[Any, Any] = {}

    def init_backend(self) -> None:
        super().init_backend()
        op_calls.register(self._forwards, DISPATCH_KEY)


def _norm_of_larger_epsilon(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    larger = SimpleNamespace(**{**vars(op), "variance_epsilon": op.variance_epsilon * 1000 + 1e-2})
    return ops.rms_norm(larger, x, *args, **kwargs)


def _rotation_backwards(op: Any, positions: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    half = op.cos_sin_cache.shape[-1] // 2
    table = torch.cat((op.cos_sin_cache[:, :half], -op.cos_sin_cache[:, half:]), dim=-1)
    return ops.rotary_embedding(
        SimpleNamespace(**{**vars(op), "cos_sin_cache": table}), positions, *args, **kwargs
    )


def _halves_exchanged(op: Any, x: torch.Tensor) -> torch.Tensor:
    return ops.silu_and_mul(op, torch.cat(x.chunk(2, dim=-1)[::-1], dim=-1))


class NormEpsilon(_WithOps):
    """The norm adds too large an epsilon."""

    _forwards = {RMSNorm: _norm_of_larger_epsilon}


class RotationBackwards(_WithOps):
    """Rows are turned the other way round."""

    _forwards = {RotaryEmbedding: _rotation_backwards}


class HalvesExchanged(_WithOps):
    """The second half is taken for the gate."""

    _forwards = {SiluAndMul: _halves_exchanged}


class SumOfOne(ExampleOOTPlatform):
    """The sum over the ranks is this rank's own part, doubled."""

    class _communicator(TorchGroupCommunicator):
        def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
            return input_ * 2

    def get_communicator_class(self) -> type | None:
        return self._communicator


class MemoryInMiB(ExampleOOTPlatform):
    """Memory is told in MiB."""

    def get_available_memory(self, device_id: int = 0) -> tuple[int, int]:
        free, total = super().get_available_memory(device_id)
        return free >> 20, total >> 20
