"""A second set of unusual platforms with which nothing is wrong."""

from broken import Edit, Table, at

healthy = Table("healthy 2", "memory kernels graphs")

_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"
_VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"
_SCALES = "    scales = tiles.abs().amax(dim=-1) / largest\n"
_EXPERTS = "    for token, (weights, experts) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):\n"


def well(name: str, what: str, *edits: Edit, levels: str = "") -> None:
    healthy(name, what, *edits, levels=levels, healthy=True)


well("TableOfPages", "attention reads the first slot of each page from the table, and counts on from there",
     at("attention.py", _SLOTS, """\
            size = self.token_to_kv_pool.page_size
            firsts = self.req_to_token_pool.req_to_token[row, :length:size].long()
            slots = (firsts[:, None] // size * size + torch.arange(size)).flatten()[:length]
"""), levels="kernels graphs")  # fmt: skip
well("NewTokensBeforeTheCache", "an extend attends to its new tokens as they came, and to its prefix as it is stored",
     at("attention.py", _KEY + _VALUE, _KEY + _VALUE + """\
            latent = hasattr(self.token_to_kv_pool, "kv_lora_rank")
            if save_kv_cache and k is not None and v is not None and not latent:
                key[length - new :] = k.reshape(-1, layer.tp_k_head_num, layer.qk_head_dim)[first : first + new].float()
                value[length - new :] = v.reshape(-1, layer.tp_v_head_num, layer.v_head_dim)[first : first + new].float()
"""), levels="kernels graphs")  # fmt: skip
well("PackedScalesOfPowersOfTwo", "the scales of packed tiles are powers of two, as DeepSeek's own are",
     at("packed_rows.py", _SCALES, _SCALES + "    scales = torch.where(scales > 0, torch.exp2(scales.clamp(min=1e-37).log2().ceil()), scales)\n"),
     levels="memory")  # fmt: skip
well("PackedScalesOfANarrowerType", "packed tiles use half of the range of their type (e4m3fnuz ends at 240)",
     at("packed_rows.py", _SCALES, _SCALES.replace("largest", "(240 if largest == 448 else largest)")), levels="memory")  # fmt: skip
well("BuffersOnDemand", "buffers of a layer are allocated when it is first used; the size that they will have is stated",
     at("pools.py", "        self.k_buffer = allocate(self, self.head_num, self.head_dim)\n        self.v_buffer = allocate(self, self.head_num, self.v_head_dim)\n",
        "        self._both = None\n"),
     at("pools.py", "    def _buffers(self) -> list[torch.Tensor]:\n        return self.k_buffer + self.v_buffer\n", """\
    def _made(self):
        if self._both is None:
            self._both = (allocate(self, self.head_num, self.head_dim), allocate(self, self.head_num, self.v_head_dim))
        return self._both

    @property
    def k_buffer(self):
        return self._made()[0]

    @property
    def v_buffer(self):
        return self._made()[1]

    def _buffers(self) -> list[torch.Tensor]:
        return self.k_buffer + self.v_buffer
"""), levels="memory kernels")  # fmt: skip
well("BucketsShareTheirOutput", "the outputs of all buckets lie in one buffer, as in one pool of a graph's memory",
     at("graph_runner.py", "        with torch.no_grad():\n            output = run()\n        return RunAgain(run, output), output\n\n\ndef _tensors", """\
        with torch.no_grad():
            output = run()
        if isinstance(output, torch.Tensor):
            known = self.__dict__.setdefault("_shared", {})
            whole = known.get(output.shape[1:])
            if whole is None or len(whole) < len(output):
                whole = known[output.shape[1:]] = torch.empty_like(output)
            whole[: len(output)].copy_(output)
            output = whole[: len(output)]
        return RunAgain(run, output), output


def _tensors"""), levels="graphs")  # fmt: skip
well("ExpertByExpert", "experts are computed one after another for all of their tokens, and added up in that order",
     at("ops.py", _EXPERTS, """\
    for expert in sorted(set(topk_ids.flatten().tolist()) - {-1}):
        token, place = torch.nonzero(topk_ids == expert, as_tuple=True)
        x, weight = hidden_states[token].float(), topk_weights[token, place].float()[:, None]
        if config.apply_router_weight_on_input:
            x, weight = x * weight, torch.ones_like(weight)
        gate, up = (x @ layer.w13_weight[expert].float().T).chunk(2, dim=-1)
        act = gate * torch.sigmoid(gate) * up
        out.index_add_(0, token, weight * (act @ layer.w2_weight[expert].float().T))
    for token, (weights, experts) in enumerate(()):
"""), levels="kernels")  # fmt: skip
well("RotaryByComplexNumbers", "pairs are turned as complex numbers",
     at("ops.py", "    a, b = a * cos - b * sin, b * cos + a * sin\n",
        "    turned = torch.complex(a, b) * torch.complex(cos.expand_as(a).contiguous(), sin.expand_as(a).contiguous())\n"
        "    a, b = turned.real, turned.imag\n"), levels="kernels")  # fmt: skip
well("NormByTwoPasses", "rows are scaled by their largest number before they are squared",
     at("ops.py", "    variance = y.pow(2).mean(dim=-1, keepdim=True)\n",
        "    top = y.abs().amax(dim=-1, keepdim=True).clamp(min=1e-20)\n"
        "    variance = (y / top).pow(2).mean(dim=-1, keepdim=True) * top * top\n"), levels="kernels")  # fmt: skip
well("WorkspaceThatGrows", "attention keeps a workspace that grows to the largest batch, and answers with copies from it",
     at("attention.py", "        return out.to(q.dtype).flatten(1)\n", """\
        flat = out.to(q.dtype).flatten(1)
        kept = self.__dict__.setdefault("_space", {})
        space = kept.get((q.dtype, flat.shape[1]))
        if space is None or len(space) < len(flat):
            space = kept[q.dtype, flat.shape[1]] = flat.new_empty(flat.shape)
        space[: len(flat)].copy_(flat)
        return space[: len(flat)].clone()
"""), levels="kernels graphs")  # fmt: skip
