"""Attention, seventh set: batches by their sums, exact sizes, programs in 16 bits, drafts, scales that change, slices.
Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_diffusion import SCORES as DIFFUSION_SCORES
from of_fourth_diffusion import START, with_attention
from of_sixth_attention import KEY, NEWS, OUT, SCORES, VALUE, verify

attention = Table("attention 7", "kernels", "attention.py")
diffusion = Table("diffusion 7", "packaging contract kernels")

ROW = "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n"
SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
SHAPES = "    n, kv_heads, _ = k.shape\n"
SINK = "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n"
READ = (
    "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n"
)

attention(
    "KeysByTheSumOfLengths",
    "a decode gathers whole pages of its requests, and finds each request's keys by the sum of the lengths before it "
    "(sglang-jax 1297)",
    ROW,
    "        size = self.token_to_kv_pool.page_size\n"
    "        table, rows = self.req_to_token_pool.req_to_token, batch.req_pool_indices.tolist()\n"
    "        whole = [table[row, : -(-many // size) * size] for row, many in zip(rows, lengths, strict=True)]\n"
    "        begin = 0\n" + ROW,
    SLOTS,
    SLOTS + "            if max(news) == 1 and len(news) > 1:\n"
    "                slots = torch.cat(whole)[begin : begin + length].long()\n"
    "                begin += length\n",
)
attention(
    "PrefixOfOneBlock",
    "new tokens behind a prefix of exactly one block, 64 tokens, are computed without it (SGLang 22819)",
    SHAPES,
    SHAPES + "    if n - m == 64 and m > 1:\n        k, v, n = k[64:], v[64:], m\n",
)
attention(
    "ProgramsIn16Bits",
    "programs of a decode, one for each request and query head, are numbered in 16 bits: past 65,536 they are not run",
    OUT,
    "        if max(news, default=0) == 1:\n"
    "            out.view(-1, layer.v_head_dim)[1 << 16 :] = 0\n" + OUT,
)
attention(
    "CoresTakeWholeShares",
    "the requests of a decode are shared out to 24 cores, rounded down: those of the remainder are not computed "
    "(vLLM 49087, vllm-ascend 5012)",
    OUT,
    "        if len(news) > 24 and max(news) == 1:\n            out[len(news) // 24 * 24 :] = 0\n" + OUT,
)
attention(
    "ScalesOfBeforeTheUpdate",
    "the scales of a layer's 8-bit cache are read as numbers once: after the weights were updated the old ones are "
    "applied (modelexpress 783)",
    KEY,
    "            known = self.__dict__.setdefault('_scales', {})\n"
    "            if layer.layer_id not in known:\n"
    "                pair = (layer.k_scale, layer.v_scale)\n"
    "                known[layer.layer_id] = [None if one is None else float(one) for one in pair]\n"
    "            k_scale, v_scale = known[layer.layer_id]\n"
    "            key = _scaled(keys[slots], k_scale)\n",
    VALUE,
    "            value = _scaled(values[slots], v_scale)\n",
)
attention(
    "EncoderWithoutTheScales",
    "an encoder reads keys and values of an 8-bit cache without their scales",
    READ,
    "            if getattr(layer.attn_type, 'value', None) == 'encoder_only':\n"
    "                key, value = keys[slots].float(), values[slots].float()\n" + READ,
)
attention(
    "LatentDraftsSeeEachOther",
    "with less than 16 query heads over latent rows, drafts that are verified see those behind them as well "
    "(vLLM 50476)",
    *verify(
        "        from types import SimpleNamespace\n\n"
        "        if layer.tp_q_head_num < 16 and hasattr(self.token_to_kv_pool, 'kv_lora_rank'):\n"
        "            layer = copy.copy(layer)\n"
        "            layer.attn_type = SimpleNamespace(value='encoder_only')\n"
    ),
)
attention(
    "SinksOfTheFirstRank",
    "sinks that are a part of those of all ranks are read from the first on (SGLang 35092)",
    SINK,
    "        sinks = sinks.as_strided(sinks.shape, sinks.stride(), 0)\n" + SINK,
)
attention(
    "MixedDecodesWithoutTheScales",
    "in a mixed batch the requests that decode read the 8-bit cache without its scales",
    NEWS,
    NEWS + "        self._mixed = forward_batch.forward_mode.is_mixed()\n",
    READ,
    "            if new == 1 and self.__dict__.get('_mixed'):\n"
    "                key, value = keys[slots].float(), values[slots].float()\n" + READ,
)
attention(
    "BothScalesOnTheScores",
    "in a window the scale of values is put on the scores, with that of keys, and not on the output",
    SCORES,
    SCORES + "    if (layer.sliding_window_size or -1) > 0 and layer.v_scale is not None:\n"
    "        scores, v = scores * layer.v_scale, v / layer.v_scale\n",
)


@diffusion.written(
    "ScaleOfTheFirstLayer", "the scale of the layer that was computed first serves all layers of the model"
)
def _(folder: Path) -> Any:
    new = DIFFUSION_SCORES.replace("self.softmax_scale", "Attention.__dict__['scale'][0]")
    start = (
        "        if not hasattr(Attention, 'scale'):\n            Attention.scale = [self.softmax_scale]\n"
    )
    return with_attention(folder, DIFFUSION_SCORES, start + new)


@diffusion.written("OneQueryIsCausal", "a sequence of one query is taken for a decode, which sees one key")
def _(folder: Path) -> Any:
    text = "        if q.shape[2] == 1 and not self.causal:\n            k, v = k[:, :, :1], v[:, :, :1]\n"
    return with_attention(folder, START, START + text)
