"""Level 9 mutants: what only a feature of SGLang shows, asked for in a running engine."""

from __future__ import annotations

from typing import Any

import torch
from mutant import mutant

from sglang_platform.core import HookRegistry, HookType
from sglang_platform.core.ops.described import MRotaryEmbedding
from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_
from sglang_platform.example_oot import more_ops
from sglang_platform.example_oot.attention import ExampleOOTAttentionBackend
from sglang_platform.example_oot.graph_runner import ExampleOOTGraphRunner
from sglang_platform.example_oot.platform import ATTENTION_BACKEND, ExampleOOTPlatform


def _highest_bit_first(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    bits = torch.arange(31, -1, -1, dtype=torch.int32, device=bitmask.device)
    forbidden = ((bitmask.unsqueeze(-1) >> bits) & 1).eq(0).flatten(1)
    logits.masked_fill_(forbidden[:, : logits.shape[1]], float("-inf"))


@mutant(
    check="features.json_schema_xgrammar",
    defect="the bits of a word are read from the highest down: other tokens are allowed than the grammar says",
    says="not accepted",
    host="sglang",
)
class BitsReadBackwards(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        return _highest_bit_first


@mutant(
    check="features.ebnf_xgrammar",
    defect="the mask is applied to a copy of the logits",
    says="not accepted",
    host="sglang",
)
class MaskOnACopy(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        return lambda logits, bitmask: apply_token_bitmask_(logits.clone(), bitmask)


@mutant(
    check="features.regex_llguidance",
    defect="only the first request's mask is applied: alone everything is right",
    says="doesn't satisfy the grammar",
    host="sglang",
)
class FirstMaskOnly(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        return lambda logits, bitmask: apply_token_bitmask_(logits[:1], bitmask[:1])


@mutant(
    check="features.regex_xgrammar",
    defect="the first request's mask is applied to every row: a constraint reaches its neighbours",
    says="not accepted",
    host="sglang",
)
class OneMaskForAll(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        return lambda logits, bitmask: apply_token_bitmask_(logits, bitmask[:1].expand_as(bitmask))


@mutant(
    check="features.tool_calls_xgrammar",
    defect="only the lower half of the vocabulary is masked: a call of a function may hold any token of the upper",
    says="not accepted",
    host="sglang",
)
class HalfTheVocabulary(ExampleOOTPlatform):
    def get_token_bitmask_fn(self) -> Any:
        return lambda logits, bitmask: apply_token_bitmask_(
            logits[:, : logits.shape[1] // 2], bitmask[:, : bitmask.shape[1] // 2]
        )


class Hooked(ExampleOOTPlatform):
    """A platform whose backend changes one function of the host, wrongly."""

    _target = ""

    def init_backend(self) -> None:
        super().init_backend()
        HookRegistry.register(self._target, self._wrong, HookType.AROUND)

    @staticmethod
    def _wrong(original: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


@mutant(
    check="features.lora_two_adapters",
    defect="every request of a batch gets the first one's adapter",
    says="adapter",
    host="sglang",
)
class FirstAdapterForAll(Hooked):
    _target = "sglang.srt.lora.backend.torch_backend:TorchNativeLoRABackend.prepare_lora_batch"

    @staticmethod
    def _wrong(
        original: Any, backend: Any, forward_batch: Any, weight_indices: Any, *rest: Any, **named: Any
    ) -> Any:
        return original(backend, forward_batch, [weight_indices[0]] * len(weight_indices), *rest, **named)


@mutant(
    check="features.sampling_filters",
    defect="the device's sampler leaves out every filter",
    says="leaves one token",
    host="sglang",
)
class SamplesWithoutFilters(Hooked):
    _target = "sglang.srt.layers.sampler:top_k_top_p_min_p_sampling_from_probs_torch"

    @staticmethod
    def _wrong(original: Any, probs: torch.Tensor, *rest: Any, **named: Any) -> Any:
        return torch.multinomial(probs.cpu(), 1).flatten().to(probs.device, torch.int32)


class _SharperAttention(ExampleOOTAttentionBackend):
    def forward_extend(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward_extend(*args, **kwargs) * 1.03

    def forward_decode(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward_decode(*args, **kwargs) * 1.03


class _Inexact(ExampleOOTPlatform):
    def get_attention_backends(self) -> Any:
        return {ATTENTION_BACKEND: _SharperAttention}


for _check, _says in {
    "log_probabilities": "differ by up to",
    "hidden_states": "differ by",
    "embeddings": "the values differ",
    "reward_model": "the values differ",
}.items():
    _name = f"AttentionThreePercentOff{_check.title().replace('_', '')}"
    globals()[_name] = mutant(
        check=f"features.{_check}",
        defect="attention is three percent too large: greedy tokens may stay, numbers do not",
        says=_says,
        host="sglang",
    )(type(_name, (_Inexact,), {"__module__": __name__, "__qualname__": _name}))


class _RowsTurned(ExampleOOTGraphRunner):
    def _take(self, output: Any, n: int) -> Any:
        taken = super()._take(output, n)
        taken.next_token_logits = taken.next_token_logits.flip(0)
        return taken


class _Turned(ExampleOOTPlatform):
    def get_graph_runner_cls(self) -> Any:
        return _RowsTurned


for _check, _says in {
    "logit_bias": "biased to",
    "stop_tokens": "asked to stop at",
    "penalties": "plain loop",
}.items():
    _name = f"RowsTurned{_check.title().replace('_', '')}"
    globals()[_name] = mutant(
        check=f"features.{_check}",
        defect="a graph's rows are handed back in reverse order: requests get each other's logits",
        says=_says,
        host="sglang",
    )(type(_name, (_Turned,), {"__module__": __name__, "__qualname__": _name}))


@mutant(
    check="features.fp8_cache",
    defect="keys of an 8-bit cache are stored at half their size, and never doubled again",
    says="standard deviations",
    host="sglang",
)
class HalvesItsCache(Hooked):
    _target = "sglang.srt.mem_cache.memory_pool:MHATokenToKVPool.set_kv_buffer"

    @staticmethod
    def _wrong(original: Any, pool: Any, layer: Any, loc: Any, cache_k: Any, *rest: Any, **named: Any) -> Any:
        return original(pool, layer, loc, cache_k / 2, *rest, **named)


@mutant(
    check="features.vision_language_model",
    defect="positions in three axes are taken for positions in a line: the picture's rows are lost",
    says="picture",
    host="sglang",
)
class OneAxisOfThree(ExampleOOTPlatform):
    def init_backend(self) -> None:
        more_ops.FORWARDS[MRotaryEmbedding] = _on_a_line
        super().init_backend()


def _on_a_line(op: Any, positions: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> Any:
    return more_ops.mrope(op, positions[0] if positions.ndim == 2 else positions, query, key)


class _LooksUpInOneModeOnly(ExampleOOTAttentionBackend):
    _at_its_slot: str
    """The mode in which a slot is taken for the place of its rows."""

    def _forward(self, mode: str, *args: Any, **kwargs: Any) -> Any:
        self._maps = mode != self._at_its_slot
        return getattr(super(), f"forward_{mode}")(*args, **kwargs)

    def forward_decode(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward("decode", *args, **kwargs)

    def forward_extend(self, *args: Any, **kwargs: Any) -> Any:
        return self._forward("extend", *args, **kwargs)

    def slot_map(self, layer: Any, forward_batch: Any) -> torch.Tensor | None:
        return super().slot_map(layer, forward_batch) if self._maps else None


for _name, _mode in {"DecodeTakesSlotsForPlaces": "decode", "ExtendTakesSlotsForPlaces": "extend"}.items():
    _backend = type(_name, (_LooksUpInOneModeOnly,), {"_at_its_slot": _mode})
    globals()[_name] = mutant(
        check="kernels.rows_elsewhere_are_looked_up",
        defect=f"{_mode} reads the rows of a window's pool at their slots, which are those of the whole pool",
        says="wrong by",
        device="example_oot",
    )(
        type(
            _name,
            (ExampleOOTPlatform,),
            {
                "__module__": __name__,
                "get_attention_backends": lambda self, b=_backend: {ATTENTION_BACKEND: b},
            },
        )
    )
