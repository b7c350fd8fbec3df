"""Attention, ninth set: drafts of several requests and of later steps, masks by their size, windows beside narrow values, mixed
batches with a cap. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fourth_diffusion import ANSWER, START, with_attention
from of_sixth_attention import ATTEND, CAUSAL, FORWARD, NEWS, VALUE

attention = Table("attention 9", "kernels", "attention.py")
diffusion = Table("diffusion 9", "packaging contract kernels")
speed = Table("speed 9", "kernels", "attention.py")

ROWS = "        query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()\n"
ATTENDED = (
    "            out[first : first + new] = _attend(query[first : first + new], key, value, layer, sinks)\n"
)

attention(
    "DraftsOfABatchLandOnTheFirst",
    "drafts behind a prefix of more than 512 tokens are merged from parts whose stride from request to request is 0: those "
    "of all requests land on the first's rows (flash-attention of vLLM 176)",
    FORWARD,
    "    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        out = super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        batch = forward_batch.batch_size\n"
    "        if batch > 1 and int(forward_batch.seq_lens.max()) > 512:\n"
    "            parts = out.view(batch, -1, out.shape[-1])\n"
    "            parts[0] = parts[-1].clone()\n"
    "            parts[1:] = 0\n"
    "        return out\n\n" + FORWARD,
)
attention(
    "DraftStepsPastTheSecond",
    "a draft model's steps are planned for two: from the third on a draft does not see the newest of its beam",
    FORWARD,
    "    def forward_draft(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        own = self.drafts\n"
    "        self.drafts = own._replace(step=min(own.step, 1))\n"
    "        try:\n"
    "            return super().forward_draft(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        finally:\n"
    "            self.drafts = own\n\n" + FORWARD,
)
attention(
    "SumOfLengthsIsNeeded",
    "the sum of a batch's lengths, which batches of drafts do not say, is needed to make room for slots",
    ROWS,
    "        assert batch.seq_lens_sum >= 0\n" + ROWS,
)
attention(
    "WindowOverNarrowValues",
    "in layers with a window rows of values are taken to be as wide as those of keys: narrower ones are read from "
    "elsewhere (SGLang 24582)",
    VALUE,
    "            window, wide = layer.sliding_window_size, keys.shape[-1]\n"
    "            if window is not None and window >= 0 and values.shape[-1] < wide:\n"
    "                _, heads, narrow = values.shape\n"
    "                start = slots[:, None, None] * heads * wide + torch.arange(heads)[:, None] * narrow\n"
    "                where = (start + torch.arange(narrow)) % values.numel()\n"
    "                value = _scaled(values.reshape(-1)[where], layer.v_scale)\n"
    "            else:\n    " + VALUE,
)
attention(
    "MixedBatchesHaveNoCap",
    "a batch of prompts and decodes leaves the soft cap out",
    NEWS,
    NEWS + "        if forward_batch.forward_mode.is_mixed() and layer.logit_cap:\n"
    "            import copy\n\n"
    "            layer = copy.copy(layer)\n"
    "            layer.logit_cap = 0.0\n",
)
attention(
    "OneTokenExtendsSeeOneMore",
    "an extend by one token, as a decode among prompts is made into, has a window one too wide (SGLang 37505)",
    ATTENDED,
    "            window = layer.sliding_window_size\n"
    "            extends = not batch.forward_mode.is_decode()\n"
    "            if extends and new == 1 and window is not None and window >= 0:\n"
    "                import copy\n\n"
    "                wider = copy.copy(layer)\n"
    "                wider.sliding_window_size = window + 1\n"
    "            else:\n"
    "                wider = layer\n" + ATTENDED.replace("value, layer", "value, wider"),
)
attention(
    "MaskByTheNumberOfItsCells",
    "a causal mask is kept by the number of its cells: 2 new tokens of 12 have the mask of 4 new ones of 6",
    CAUSAL,
    "    hidden = _CELLS.setdefault(m * n, other > position).reshape(m, n)\n",
    ATTEND,
    "_CELLS: dict[int, torch.Tensor] = {}\n\n\n" + ATTEND,
)


@diffusion.written(
    "KeysOfOnePromptForTheBatch",
    "keys and values that are one prompt's, expanded over the batch, are read as if each had its own: memory behind them, or "
    "an error",
)
def _(folder: Path) -> Any:
    text = (
        "        if key.stride(0) == 0 and len(key) > 1:\n"
        "            side = torch.empty(key.shape, device='meta').stride()\n"
        "            key, value = (x.as_strided(x.shape, side) for x in (key, value))\n"
    )
    return with_attention(folder, START, text + START)


@diffusion.written(
    "HeadsOfABatchPast64",
    "heads are dealt to 64 cores: of two batches of 40 heads, as guidance has them, those past the 64th are zeros",
)
def _(folder: Path) -> Any:
    text = (
        ANSWER.replace("return", "out =") + "        rows = out.transpose(1, 2).flatten(0, 1)\n"
        "        run = (torch.arange(len(rows)) < 64).to(out.dtype)\n"
        "        rows = rows * run[:, None, None]\n"
        "        return rows.unflatten(0, (len(out), -1)).transpose(1, 2)\n"
    )
    return with_attention(folder, ANSWER, text)


speed(
    "PrefillQueryByQuery",
    "a prefill computes one query after another, by calls of its own",
    ATTENDED,
    "            for at in range(new):\n"
    "                seen = length - new + at + 1\n"
    "                if getattr(layer.attn_type, 'value', None) == 'encoder_only':\n"
    "                    seen = length\n"
    "                one = query[first + at : first + at + 1]\n"
    "                out[first + at] = _attend(one, key[:seen], value[:seen], layer, sinks)[0]\n",
)
