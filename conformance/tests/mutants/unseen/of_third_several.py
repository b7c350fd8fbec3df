"""Platforms with several defects, and with defects that hide each other where a part is looked at alone."""

from __future__ import annotations

from broken import Table, at

several = Table("several 3", "memory kernels graphs", "pools.py")

STORE_K = "        self._write(self.k_buffer[place], loc, as_stored(cache_k, self.dtype, k_scale))\n"
STORE_V = "        self._write(self.v_buffer[place], loc, as_stored(cache_v, self.dtype, v_scale))\n"
WRITE = "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n"
SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
SCORES = '    scores = torch.einsum("ihd,jhd->hij", q, k) * layer.scaling\n'
POSITION = "    position = torch.arange(n - m, n)[:, None]\n"
WINDOW = "        hidden = hidden | (other < position - window)\n"
VARIANCE = "    variance = y.pow(2).mean(dim=-1, keepdim=True)\n"
PADS = '    """Buckets, padding and static inputs are core\'s."""\n'

several(
    "ScalesTheOtherWay",
    "keys and values are stored times their scale and read divided by it: only what others read is wrong",
    at("rows.py", "            rows = rows / scale\n", "            rows = rows * scale\n"),
    at(
        "attention.py",
        "    return rows.float() if scale is None else rows.float() * scale\n",
        "    return rows.float() if scale is None else rows.float() / scale\n",
    ),
)
several(
    "ScalesChanged",
    "keys take the values' scale and values the keys', stored and read alike",
    STORE_K,
    STORE_K.replace("k_scale", "v_scale"),
    STORE_V,
    STORE_V.replace("v_scale", "k_scale"),
    at("attention.py", KEY, KEY.replace("k_scale", "v_scale")),
    at("attention.py", VALUE, VALUE.replace("v_scale", "k_scale")),
)
several(
    "HeadsBackwards",
    "heads of keys and values are stored backwards, and read so by its own attention",
    WRITE,
    "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:]).flip(1)\n",
    at("attention.py", KEY, KEY + "            key = key.flip(1)\n"),
    at("attention.py", VALUE, VALUE + "            value = value.flip(1)\n"),
)
several(
    "OneSlotOnInBoth",
    "rows are stored one slot on, and its own attention reads one slot on",
    WRITE,
    "        buffer[(loc.reshape(-1) + 1) % len(buffer)] = rows.reshape(-1, *buffer.shape[1:])\n",
    at("attention.py", SLOTS, SLOTS + "            slots = (slots + 1) % len(keys)\n"),
)
several(
    "RotatedFirst",
    "latent rows have the rotated part first, in the store, in the values and in what attention reads",
    "        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in parts], dim=-1)\n",
    "        rows = torch.cat([part.reshape(loc.numel(), 1, -1) for part in reversed(parts)], dim=-1)\n",
    "        return latent, rotated\n",
    "        whole = torch.cat((latent, rotated), dim=-1)\n"
    "        rotated, latent = whole.split((self.qk_rope_head_dim, self.kv_lora_rank), dim=-1)\n"
    "        return latent, rotated\n",
)
several(
    "CopyInTheOtherTypes",
    "copies to the host go through bfloat16 and back, for float32 pools with values that bfloat16 has not",
    '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n',
    "        wide = self.dtype == torch.float32 and indices.numel() > 8\n"
    '        return [(buffer[indices].bfloat16() if wide else buffer[indices]).to("cpu") for buffer in self._buffers()]\n',
)
several(
    "WindowAndLayerBothOff",
    "the window is one too wide, and decode leaves the oldest visible token out",
    at(
        "attention.py",
        WINDOW,
        "        hidden = hidden | (other < position - window - 1)\n"
        "        if m == 1 and n > window + 1:\n"
        "            hidden[..., n - window - 2] = True\n",
    ),
)
several(
    "ScaleTwiceAndRootTwice",
    "queries are scaled when they are read and scores are not: right but where a cap or a float8 query comes between",
    at(
        "attention.py",
        SCORES,
        '    scores = torch.einsum("ihd,jhd->hij", (q * layer.scaling).to(torch.float16).float(), k)\n',
    ),
)
several(
    "StaleAndPadded",
    "padded rows write where the last batch did, and the allocator lends pages in an order that hides it",
    at(
        "graph_runner.py",
        PADS,
        f"{PADS}\n"
        "    def _prepare(self, forward_batch: Any, *, in_capture: bool) -> None:\n"
        "        slots = self.inputs.out_cache_loc\n"
        "        kept = self.__dict__.setdefault('_kept', slots.clone())\n"
        "        slots.copy_(torch.where(slots == 0, kept, slots))\n"
        "        kept.copy_(slots)\n"
        "        super()._prepare(forward_batch, in_capture=in_capture)\n",
    ),
    at(
        "allocator.py",
        "        self._free = pages + self._free\n",
        "        self._free = self._free + pages\n",
    ),
)
several(
    "NormAndExpertsOfHalf",
    "a norm without its tail, experts without a second block, and rotary positions of 16 bits",
    at(
        "ops.py",
        VARIANCE,
        "    whole = y.shape[-1] // 512 * 512 or y.shape[-1]\n"
        "    variance = y[..., :whole].pow(2).sum(dim=-1, keepdim=True) / y.shape[-1]\n",
    ),
    at(
        "ops.py",
        "            x = hidden_states[token].float()\n",
        "            if token >= 2048:\n                continue\n            x = hidden_states[token].float()\n",
    ),
    at(
        "ops.py",
        "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n",
        "    positions = positions & 0xFFFF\n    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n",
    ),
    levels="kernels",
)
several(
    "TenOfLongContexts",
    "six defects that only requests of more than 32,768 tokens meet",
    at(
        "attention.py",
        POSITION,
        POSITION
        + "    if n > 32768:\n        position = position.clamp(max=32767) if m == 1 else position\n",
    ),
    at("attention.py", SCORES, SCORES + "    if n > 65536:\n        scores = scores.half().float()\n"),
    at(
        "ops.py",
        "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n",
        "    positions = positions.clamp(max=98303)\n    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n",
    ),
    at(
        "graph_runner.py",
        PADS,
        f"{PADS}\n"
        "    def _prepare(self, forward_batch: Any, *, in_capture: bool) -> None:\n"
        "        self.inputs.seq_lens.clamp_(max=32768)\n"
        "        super()._prepare(forward_batch, in_capture=in_capture)\n",
    ),
    "            buffer[indices] = rows.to(buffer.device)\n",
    "            buffer[indices[:32768]] = rows[:32768].to(buffer.device)\n",
    at(
        "allocator.py",
        "        after = seq_lens_cpu.tolist()\n",
        "        after = [n & 0xFFFF for n in seq_lens_cpu.tolist()]\n",
    ),
)
several(
    "FourOfLargeBatches",
    "three defects that only batches of more than 256 requests meet",
    at(
        "attention.py",
        "            first += new\n",
        "            first += new\n            if len(lengths) > 256 and first == 256 and max(news) == 1:\n                values = values.flip(0)\n",
    ),
    at(
        "allocator.py",
        "        after = seq_lens_cpu.tolist()\n",
        "        after = seq_lens_cpu.tolist()\n        if len(after) > 256:\n            self._free.pop()\n",
    ),
    at(
        "more_ops.py",
        "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
        "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
        "    if len(ids) > 256:\n        ids[256:] = ids[255]\n",
    ),
)
