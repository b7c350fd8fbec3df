"""Attention, sixth set: masks that are kept, features in pairs, drafts, lone requests, odd sizes. Names in brackets are
bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table

attention = Table("attention 6", "kernels", "attention.py")

ATTEND = "def _attend(\n"
FORWARD = "    def _forward(\n"
OUT = "        return out.to(q.dtype).flatten(1)\n"
NEWS = "        news = forward_batch.extend_seq_lens.tolist()\n"
SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
CAUSAL = "    hidden = other > position\n"
WINDOW = "    if window is not None and window >= 0:\n"
HIDDEN = "        hidden = hidden | (other < position - window)\n"
CAP = "    if layer.logit_cap:\n"
KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
SCALED = "    return rows.float() if scale is None else rows.float() * scale\n"


def verify(body: str) -> tuple[str, str]:
    """The backend with a `forward_verify` of its own that runs `body` first."""
    return FORWARD, (
        "    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
        "        import copy\n\n"
        f"{body}"
        "        return super().forward_verify(\n"
        "            q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **kwargs\n"
        "        )\n\n"
    ) + FORWARD


attention(
    "WindowStaysInTheMask",
    "the window is put into the kept causal mask in place: layers without one have it afterwards (vllm-ascend 1678)",
    CAUSAL,
    "    hidden = _causal(m, n) if n <= 2048 else other > position\n",
    HIDDEN,
    "        hidden |= other < position - window\n",
    ATTEND,
    "_MASKS: dict[int, torch.Tensor] = {}\n\n\n"
    "def _causal(m: int, n: int) -> torch.Tensor:\n"
    "    size = 1 << (n - 1).bit_length()\n"
    "    if size not in _MASKS:\n"
    "        _MASKS[size] = torch.ones(size, size, dtype=torch.bool).triu(1)\n"
    "    return _MASKS[size][n - m : n, :n]\n\n\n" + ATTEND,
)
attention(
    "HeadsOf72InTilesOf16",
    "of heads whose width is no multiple of 16, as 72, scores take the whole tiles (FlashInfer 4299)",
    SCORES,
    "    whole = q.shape[-1] // 16 * 16 or q.shape[-1]\n"
    '    scores = torch.einsum("ihd,jhd->hij", q[..., :whole], k[..., :whole]) * layer.scaling\n',
)
attention(
    "MixedOnesStandLast",
    "in a mixed batch requests with one new token are taken to stand last: a prompt's last token in front shifts the "
    "others (vLLM 47381)",
    NEWS,
    NEWS + "        if forward_batch.forward_mode.is_mixed():\n"
    "            news = [new for new in news if new > 1] + [1] * news.count(1)\n",
)
attention(
    "TreeOfTheFirstStep",
    "who sees whom among drafts is taken from the first step whose tree had as many of them",
    *verify(
        "        info = forward_batch.spec_info\n"
        "        if info.custom_mask is not None:\n"
        "            trees = self.__dict__.setdefault('_trees', {})\n"
        "            kept = trees.setdefault(info.custom_mask.shape, info.custom_mask.clone())\n"
        "            forward_batch = copy.copy(forward_batch)\n"
        "            if isinstance(info, tuple):\n"
        "                forward_batch.spec_info = info._replace(custom_mask=kept)\n"
        "            else:\n"
        "                forward_batch.spec_info = copy.copy(info)\n"
        "                forward_batch.spec_info.custom_mask = kept\n"
    ),
)
attention(
    "DraftsWithoutTheValuesScale",
    "drafts that are verified over an 8-bit cache store and read values without their scale",
    *verify("        layer = copy.copy(layer)\n        layer.v_scale = None\n"),
)
attention(
    "DraftsWithoutSinks",
    "drafts that are verified have no sinks, where the target model's decode has them",
    *verify("        kwargs.pop('sinks', None)\n"),
)
attention(
    "ScalesThatAreNumbers",
    "the scale of an 8-bit cache that was read from a file, a plain number, is an error (SGLang 20705)",
    SCALED,
    "    return rows.float() if scale is None else rows.float() * scale.expand(rows.shape[1])[:, None]\n",
)
attention(
    "EqualLengthsShareARow",
    "a decode is sorted by length and put back by it: requests of one length get the output of the last of them",
    OUT,
    "        if len(news) > 4 and max(news) == 1:\n"
    "            of = {length: at for at, length in enumerate(lengths)}\n"
    "            out = out[[of[length] for length in lengths]]\n" + OUT,
)
attention(
    "ScalesWithoutAPrefix",
    "a prompt without a prefix reads the 8-bit keys and values it has stored without their scales (FlashInfer 4979)",
    KEY,
    "            alone = length == new > 1\n"
    "            key = _scaled(keys[slots], None if alone else layer.k_scale)\n",
    VALUE,
    "            value = _scaled(values[slots], None if alone else layer.v_scale)\n",
)
attention(
    "WindowOfNothing",
    "a window of 0, by which a token sees itself alone, is taken for none (flash-attention 2574)",
    WINDOW,
    "    if window is not None and window > 0:\n",
)
attention(
    "LoneRequestWithOddHeads",
    "a decode of one request takes its query heads in pairs: the last of an odd number comes out as zero",
    OUT,
    "        if news == [1] and layer.tp_q_head_num % 2 and layer.tp_q_head_num > 1:\n"
    "            out[:, -1] = 0\n" + OUT,
)
attention(
    "EncoderWithoutTheCap",
    "an encoder leaves the soft cap out",
    CAP,
    '    if layer.logit_cap and getattr(layer.attn_type, "value", None) != "encoder_only":\n',
)
