"""Level 4 mutants: attention."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from mutant import mutant
from patched_reference import patch, patched

from sglang_platform.conformance.reference.platform import ReferencePlatform

__getattr__ = patched

attention = partial(patch, __name__, file="attention.py")

DECODE, EXTEND = "kernels.decode_attention", "kernels.extend_attention"

BY_HEADS = "kernels.latent_prefills_by_heads_attention"

attention(
    "LengthsOfAnEarlierPrefill",
    old="        query = q.float().reshape(",
    new="        news = self.__dict__.setdefault('_news', {}).setdefault((len(news), sum(news)), news)\n"
    "        query = q.float().reshape(",
    check=BY_HEADS,
    defect="of a prefill by heads the lengths are kept by the number of requests and of tokens",
    says="batch 3, of requests of [9, 3] tokens",
)
attention(
    "EachHeadWithTheFirstKeys",
    old="        value = v.float().reshape(",
    new="        key = key[:, :1].expand_as(key)\n        value = v.float().reshape(",
    check=BY_HEADS,
    defect="in a prefill by heads all of them meet the first head's keys, as over a latent row",
    says="batch 1, of requests of [7] tokens: wrong by",
)
for _name, _field, _plain, _asked in (
    ("ChunksIgnored", "use_irope", False, True),
    ("PositionsIgnored", "pos_encoding_mode", "NONE", "ALIBI"),
    ("TemperatureIgnored", "xai_temperature_len", -1, 2),
    ("CappingMethodIgnored", "logit_capping_method", "tanh", "sigmoid"),
):
    attention(
        _name,
        old="    def init_cuda_graph_state(",
        new="    def forward(self, q, k, v, layer, *args, **kwargs):\n"
        f"        layer = __import__('copy').copy(layer)\n        layer.{_field} = {_plain!r}\n"
        "        return super().forward(q, k, v, layer, *args, **kwargs)\n\n"
        "    def init_cuda_graph_state(",
        check="kernels.undeclared_feature_is_refused",
        defect=f"{_field} of a layer is ignored",
        says=f"layer.{_field}={_asked!r} is neither declared nor refused",
    )
attention(
    "MaskOffByOneAtTheChunkEdge",
    old="position = torch.arange(n - m, n)[:, None]",
    new="position = torch.arange(m)[:, None]",
    check=EXTEND,
    defect="the causal mask starts at the first new token, whatever the prefix",
    says="as if there were no prefix",
)
attention(
    "OwnTokenHidden",
    old="hidden = other > position",
    new="hidden = (other >= position) & (position > 0)",
    check=EXTEND,
    defect="a token does not see itself",
    says="wrong by",
)
attention(
    "NotCausal",
    old="hidden = other > position",
    new="hidden = other > n",
    check=EXTEND,
    defect="new tokens see those behind them",
    says="not causal",
)
attention(
    "LastTokenForgotten",
    old="self.req_to_token_pool.req_to_token[row, :length].long()",
    new="self.req_to_token_pool.req_to_token[row, : max(1, length - 1)].long()",
    check=DECODE,
    defect="decode leaves out the token that was just stored",
    says="the last token is left out",
)
attention(
    "RowOfBatchInsteadOfRequest",
    old="for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):",
    new="for row, length, new in zip(range(1, 1 + len(lengths)), lengths, news, strict=True):",
    check=DECODE,
    defect="the request table is read by place in the batch instead of by req_pool_indices",
    says="request",
)
attention(
    "HeadGroupSwapped",
    old="k = k.repeat_interleave(heads // kv_heads, dim=1)\n    v = v.repeat_interleave(heads // kv_heads, dim=1)",
    new="k = k.repeat(1, heads // kv_heads, 1)\n    v = v.repeat(1, heads // kv_heads, 1)",
    check=DECODE,
    defect="query heads are dealt to key heads in turn",
    says="dealt to key heads in turn",
)
attention(
    "ScaleIgnored",
    old='scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling',
    new='scores = torch.einsum("ihd,jhd->hij", q, k)',
    check=DECODE,
    defect="scores are not scaled",
    says="not scaled",
)
attention(
    "ScaleFromHeadDim",
    old="* layer.scaling",
    new="* layer.qk_head_dim**-0.5",
    check=DECODE,
    defect="scores are scaled by the head dimension, whatever the model says",
    says="instead of layer.scaling",
)
attention(
    "SlidingWindowOneTooNarrow",
    old="hidden = hidden | (other < position - window)",
    new="hidden = hidden | (other <= position - window) & (other < position)",
    check="kernels.sliding_window_attention",
    defect="the sliding window is off by one",
    says="one token too narrow",
)
attention(
    "SlidingWindowIgnored",
    old="if window is not None and window >= 0:",
    new="if window is not None and window > 4096:",
    check="kernels.sliding_window_attention",
    defect="there is no sliding window",
    says="no sliding window",
)
attention(
    "WindowFromTheEnd",
    old="hidden = hidden | (other < position - window)",
    new="hidden = hidden | ((other < n - 1 - window) & (other < position))",
    check="kernels.sliding_window_attention",
    defect="the window of every token is that of the last one",
    says="wrong by",
)
attention(
    "CapBeforeScale",
    old='scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n    if layer.logit_cap:\n'
    "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)",
    new='scores = torch.einsum("ihd,jhd->hij", q, k)\n    if layer.logit_cap:\n'
    "        scores = layer.logit_cap * torch.tanh(scores / layer.logit_cap)\n    scores = scores * layer.scaling",
    check="kernels.logit_cap_attention",
    defect="the soft cap comes before the scale",
    says="before the scale",
)
attention(
    "CapIsAClamp",
    old="layer.logit_cap * torch.tanh(scores / layer.logit_cap)",
    new="scores.clamp(-layer.logit_cap, layer.logit_cap)",
    check="kernels.logit_cap_attention",
    defect="scores are cut off at the cap instead of bent",
    says="wrong by",
)
attention(
    "SinksIgnored",
    old="if sinks is not None:",
    new="if sinks is not None and False:",
    check="kernels.sink_attention",
    defect="sinks are ignored",
    says="sinks are ignored",
)
attention(
    "KeyScaleMissing",
    old="key = _scaled(keys[slots], layer.k_scale)",
    new="key = _scaled(keys[slots], None)",
    check="kernels.fp8_kv_attention",
    defect="keys of an fp8 cache are read without their scale",
    says="k_scale",
)
attention(
    "ScalesSwapped",
    old="key = _scaled(keys[slots], layer.k_scale)\n            value = _scaled(values[slots], layer.v_scale)",
    new="key = _scaled(keys[slots], layer.v_scale)\n            value = _scaled(values[slots], layer.k_scale)",
    check="kernels.fp8_kv_attention",
    defect="keys are read with the scale of the values",
    says="swapped",
)
attention(
    "ReadsTheWholePage",
    old="slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
    "            key = _scaled(keys[slots], layer.k_scale)\n            value = _scaled(values[slots], layer.v_scale)",
    new="slots = self.req_to_token_pool.req_to_token[row, : length + 1].long()\n"
    "            key = _scaled(keys[slots], layer.k_scale)[:length]\n"
    "            value = _scaled(values[slots], layer.v_scale)\n"
    "            value = value[:length] + 0 * value[length:]",
    check="kernels.unused_slots_never_reach_the_output",
    defect="a slot behind the request is loaded, and weighted with zero",
    says="NaN",
)
attention(
    "StoresInSlotOrder",
    old="self._store(k, v, layer, batch.out_cache_loc)",
    new="self._store(k, v, layer, batch.out_cache_loc.sort().values)",
    check=EXTEND,
    defect="new keys and values are stored in ascending slots instead of in the order given",
    says="wrong by",
)
attention(
    "StoresThoughTold",
    old="if save_kv_cache and k is not None:",
    new="if k is not None:",
    check="kernels.attention_stores_the_new_tokens_only",
    defect="new tokens are stored although save_kv_cache is False",
    says="save_kv_cache=False",
)
attention(
    "StoresInSlotZeroToo",
    old="        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)\n        if hasattr",
    new="        k = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)\n"
    "        self.token_to_kv_pool.get_key_buffer(layer.layer_id)[1].copy_(k[0])\n        if hasattr",
    check="kernels.attention_stores_the_new_tokens_only",
    defect="the first new token is stored in a slot of the padding page as well",
    says="which were not given",
)
attention(
    "ViewOfQueries",
    old="query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()",
    new="query = torch.as_strided(q, (q.shape[0], layer.tp_q_head_num, layer.qk_head_dim),"
    " (layer.tp_q_head_num * layer.qk_head_dim, layer.qk_head_dim, 1)).float()",
    check="kernels.attention_takes_tokens_of_any_layout",
    defect="the kernel takes queries for contiguous",
    says="wrong by",
)
attention(
    "OrderLeftToChance",
    old='return torch.einsum("hij,jhd->ihd", weights, v)',
    new="arrivals = torch.Generator()\n    arrivals.seed()\n"
    "    arrival = torch.randperm(len(v), generator=arrivals)\n"
    '    return torch.einsum("hij,jhd->ihd", weights[..., arrival], v[arrival])',
    check="kernels.attention_is_deterministic",
    defect="the result depends on the order in which partial sums arrive",
    says="differs",
)
attention(
    "HalfPrecisionAccumulation",
    old='return torch.einsum("hij,jhd->ihd", weights, v)',
    new='return torch.einsum("hij,jhd->ihd", weights.half().float(), v)',
    check=DECODE,
    defect="weights are rounded to half precision where the model computes in float32",
    says="wrong by",
)
attention(
    "MixedBatchAsDecode",
    old="news = forward_batch.extend_seq_lens.tolist()",
    new="news = forward_batch.extend_seq_lens.tolist()\n"
    "        if forward_batch.forward_mode.is_mixed():\n            lengths = [max(1, n - 1) if m == 1 else n"
    " for n, m in zip(lengths, news)]",
    check="kernels.mixed_batch_attention",
    defect="a decoding request of a mixed batch does not see its own new token",
    says="request",
)
attention(
    "EncoderIsCausal",
    old="hidden = torch.zeros_like(hidden)",
    new="hidden = hidden.clone()",
    check="kernels.encoder_attention",
    defect="encoder-only layers are computed with a causal mask",
    says="wrong by",
)
patch(
    __name__,
    "LatentValuesFromTheEnd",
    "pools.py",
    "return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]",
    "return self.get_key_buffer(layer_id)[..., -self.kv_lora_rank :]",
    check="kernels.mla_attention",
    defect="the values of MLA are taken from the end of the row, over the rotated part",
    says="wrong by",
)


@mutant(
    check="kernels.undeclared_feature_is_refused",
    defect="a sliding window is not declared, and left out by writing over the layer, for all later calls too",
    says="sliding_window_size",
)
class WindowNotDeclaredAndTakenOff(ReferencePlatform):
    attention_features = tuple(
        word for word in ReferencePlatform.attention_features if word != "sliding_window"
    )

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        from sglang_platform.conformance.reference.attention import ReferenceAttention

        class TakesTheWindowOff(ReferenceAttention):
            def forward(self, q: Any, k: Any, v: Any, layer: Any, *more: Any, **keywords: Any) -> Any:
                layer.sliding_window_size = -1
                return super().forward(q, k, v, layer, *more, **keywords)

        return {"reference": TakesTheWindowOff}


@mutant(
    check="kernels.undeclared_feature_is_refused",
    defect="a sliding window is neither declared nor refused, and left out",
    says="sliding_window is neither declared nor refused",
)
class WindowNotDeclaredAndIgnored(ReferencePlatform):
    attention_features = tuple(
        word for word in ReferencePlatform.attention_features if word != "sliding_window"
    )

    def get_attention_backends(self) -> dict[str, Callable[..., Any]]:
        from sglang_platform.conformance.reference.attention import ReferenceAttention

        class NoWindow(ReferenceAttention):
            def forward(self, q: Any, k: Any, v: Any, layer: Any, *more: Any, **keywords: Any) -> Any:
                windowless = copy.copy(layer)
                windowless.sliding_window_size = -1
                return super().forward(q, k, v, windowless, *more, **keywords)

        return {"reference": NoWindow}
