"""Level 9 mutants: models, checkpoints, adapters, grammars and drafts that no other file breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from mutant import mutant
from mutants_of_features import Hooked
from mutants_of_speculative import WithTreesAsChains

from sglang_platform.core import FusedOp
from sglang_platform.core.ops.fused_op import MoEExperts
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
from sglang_platform.example_oot.kv_pools import ExampleOOTMLAPool
from sglang_platform.example_oot.ops import moe_experts
from sglang_platform.example_oot.platform import ATTENTION_BACKEND, ExampleOOTPlatform

_TOKENS = "transformers gives"

# Models


def _evenly(
    op: Any, layer: Any, x: torch.Tensor, weights: torch.Tensor, ids: torch.Tensor, config: Any
) -> Any:
    even = weights.sum(-1, keepdim=True).expand_as(weights) / weights.shape[-1]
    return moe_experts(op, layer, x, even.contiguous(), ids, config)


@mutant(
    check="features.mixture_of_experts",
    defect="the chosen experts count alike, whatever the router says",
    says=_TOKENS,
    host="sglang",
)
class ExpertsCountAlike(ExampleOOTPlatform):
    def init_backend(self) -> None:
        super().init_backend()
        FusedOp.register_oot_forward(MoEExperts, _evenly, self.get_dispatch_key_name())


class _WithoutPositions(ExampleOOTMLAPool):
    def _scatter_mla_rows(
        self, dst_buffer: torch.Tensor, loc: torch.Tensor, nope: torch.Tensor, rope: torch.Tensor
    ) -> None:
        super()._scatter_mla_rows(dst_buffer, loc, nope, torch.zeros_like(rope))


@mutant(
    check="features.latent_attention",
    defect="the rotated part of a latent row is stored as zeros: keys have no positions",
    says=_TOKENS,
    host="sglang",
    device="example_oot",
)
class KeysWithoutPositions(ExampleOOTPlatform):
    def get_kv_pool_cls(self, *, kind: str) -> Any:
        return _WithoutPositions if kind == "mla" else super().get_kv_pool_cls(kind=kind)


class _SeesTheLast(ExampleOOTAttentionBackend):
    _most = 8192

    def forward_decode(self, q: Any, k: Any, v: Any, layer: Any, *rest: Any, **named: Any) -> Any:
        before, layer.sliding_window_size = layer.sliding_window_size, self._most
        try:
            return super().forward_decode(q, k, v, layer, *rest, **named)
        finally:
            layer.sliding_window_size = before


@mutant(
    check="features.long_context",
    defect="a decode sees the last 8,192 tokens and none before",
    says=_TOKENS,
    host="sglang",
)
class SeesTheLast8192(ExampleOOTPlatform):
    def get_attention_backends(self) -> Any:
        return {ATTENTION_BACKEND: _SeesTheLast}


# Checkpoints: the weights as they are read back


def _columns_by_eight(weight: torch.Tensor) -> torch.Tensor:
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    return weight.unflatten(-1, (-1, 8))[..., order].flatten(-2)


_READ_BACK: Mapping[str, tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "fp8": ("half of the scale is left out", lambda weight: weight / 2),
    "fp8_block": (
        "the scales of two halves are exchanged",
        lambda weight: weight.roll(weight.shape[0] // 2, 0),
    ),
    "awq": ("eight numbers of a word are taken in their order of storage", _columns_by_eight),
    "gptq": ("the zero point is one too high", lambda weight: weight - weight.abs().amax() / 8),
    "int8": ("numbers are taken without their sign", torch.abs),
}


def _reads_wrongly(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def _wrong(original: Any, *args: Any, **kwargs: Any) -> Any:
        for name, weight in original(*args, **kwargs):
            yield name, change(weight) if name.endswith("_proj.weight") else weight

    return _wrong


for _format, (_defect, _change) in _READ_BACK.items():
    _name = f"ReadsWrongly{_format.title().replace('_', '')}"
    globals()[_name] = mutant(
        check=f"features.checkpoint_{_format}", defect=_defect, says=_TOKENS, host="sglang"
    )(
        type(
            _name,
            (Hooked,),
            {
                "__module__": __name__,
                "__qualname__": _name,
                "_target": "sglang.srt.model_loader.loader:DefaultModelLoader._get_weights_iterator",
                "_wrong": staticmethod(_reads_wrongly(_change)),
            },
        )
    )


# Adapters, sampling and grammars


@mutant(
    check="features.lora_graphs",
    defect="every request of a decode step gets the adapter of the first one",
    says="adapter",
    host="sglang",
    device="example_oot",
)
class AdapterOfTheFirstRow(Hooked):
    _target = "sglang.srt.lora.lora_manager:LoRAManager.prepare_lora_batch"

    @staticmethod
    def _wrong(original: Any, manager: Any, forward_batch: Any, *rest: Any, **named: Any) -> Any:
        if forward_batch.forward_mode.is_decode() and any(forward_batch.lora_ids or ()):
            first = forward_batch.lora_ids[0]
            forward_batch.lora_ids = [first] * len(forward_batch.lora_ids)
        return original(manager, forward_batch, *rest, **named)


class _FirstRowForAll(ExampleOOTGraphRunner):
    def _take(self, output: Any, n: int) -> Any:
        taken = super()._take(output, n)
        taken.next_token_logits = taken.next_token_logits[:1].expand(n, -1).roll(n - 1, 1).contiguous()
        return taken


@mutant(
    check="features.several_answers",
    defect="all answers to a prompt read the first one's logits, turned by their number",
    says="n=4",
    host="sglang",
)
class LogitsOfTheFirstAnswer(ExampleOOTPlatform):
    def get_graph_runner_cls(self) -> Any:
        return _FirstRowForAll


@mutant(
    check="features.json_schema_llguidance",
    defect="only the lower half of the vocabulary is masked",
    says="doesn't satisfy the grammar",
    host="sglang",
)
class LowerHalfOfTheVocabulary(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        def lower(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
            half = logits.shape[1] // 64 * 32
            apply_token_bitmask_(logits[:, :half], bitmask[:, : half // 32])

        return lower


@mutant(
    check="features.ebnf_llguidance",
    defect="what the grammar allows is forbidden, and the rest allowed",
    says="doesn't satisfy the grammar",
    host="sglang",
)
class MaskInverted(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        return lambda logits, bitmask: apply_token_bitmask_(logits, ~bitmask)


class _OutlinesMask(Hooked):
    _target = "sglang.srt.constrained.outlines_backend:OutlinesGrammar.apply_vocab_mask"


@mutant(
    check="features.json_schema_outlines",
    defect="the mask of Outlines is applied to the first row only",
    says="asked for",
    host="sglang",
)
class OutlinesMasksTheFirst(_OutlinesMask):
    @staticmethod
    def _wrong(original: Any, logits: torch.Tensor, vocab_mask: torch.Tensor) -> Any:
        return original(logits[:1], vocab_mask[:1])


@mutant(
    check="features.regex_outlines",
    defect="every row gets the mask of the first: a constraint reaches its neighbours",
    says="asked for",
    host="sglang",
)
class OutlinesMasksAllAlike(_OutlinesMask):
    @staticmethod
    def _wrong(original: Any, logits: torch.Tensor, vocab_mask: torch.Tensor) -> Any:
        return original(logits, vocab_mask[:1].expand_as(vocab_mask).contiguous())


# Drafts


@mutant(
    check="features.ngram_drafts_sampled",
    defect="verification leaves the mask aside where requests sample",
    says=_TOKENS,
    host="sglang",
)
class MaskLeftAsideSampled(WithTreesAsChains):
    pass


@mutant(
    check="features.eagle_tree",
    defect="a tree of EAGLE's is verified as a chain",
    says=_TOKENS,
    host="sglang",
)
class EagleTreeAsAChain(WithTreesAsChains):
    pass


class _HalfKeys(ExampleOOTAttentionBackend):
    def forward_verify(self, q: Any, k: Any, v: Any, *rest: Any, **named: Any) -> Any:
        return super().forward_verify(q, k * 0.5, v, *rest, **named)


class _VerifiesHalfKeys(ExampleOOTPlatform):
    def get_attention_backends(self) -> Any:
        return {ATTENTION_BACKEND: _HalfKeys}


for _check, _what in {
    "eagle_chain": "of EAGLE's",
    "standalone_wrong_drafts": "that are all rejected",
}.items():
    _name = f"HalfKeys{_check.title().replace('_', '')}"
    globals()[_name] = mutant(
        check=f"features.{_check}",
        defect=f"verifying drafts {_what} stores keys of half their size",
        says=_TOKENS,
        host="sglang",
    )(type(_name, (_VerifiesHalfKeys,), {"__module__": __name__, "__qualname__": _name}))
