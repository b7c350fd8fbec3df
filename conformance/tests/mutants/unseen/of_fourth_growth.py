"""Growth and speed, fourth set: what is kept per call, and steps whose time goes with what they do not need."""

from __future__ import annotations

from broken import Table, at

growth = Table("growth 4", "memory", "pools.py")
steps = Table("growth 4", "kernels", "attention.py")
ops = Table("growth 4", "kernels", "ops.py")

TO_CPU = '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
MOVE = "            buffer[tgt_loc] = buffer[src_loc].clone()\n"
KEYS = "        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n"
TABLE = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
NORM = "    return y if residual is None else (y, residual)\n"

growth(
    "CopiesOfRetractedRequestsStay",
    "what a request took to host memory is kept there after it came back",
    TO_CPU,
    "        copies = self.__dict__.setdefault('_copies', [])\n"
    '        copies.append([buffer[indices].to("cpu") for buffer in self._buffers()])\n'
    "        return copies[-1]\n",
)
growth(
    "MovesKeepScratch",
    "each move takes scratch memory that stays",
    MOVE,
    "            scratch = self.__dict__.setdefault('_scratch', [])\n"
    "            scratch.append(buffer[src_loc].clone())\n"
    "            buffer[tgt_loc] = scratch[-1]\n",
)
growth(
    "FreesAreLogged",
    "the allocator keeps every tensor of slots that came back",
    at(
        "allocator.py",
        "        if free_index.numel() == 0:\n            return\n",
        "        if free_index.numel() == 0:\n            return\n"
        "        self.__dict__.setdefault('_log', []).append(free_index.clone())\n",
    ),
)
growth(
    "FreesLookThroughTheirHistory",
    "each free is compared with all that were made before it",
    at(
        "allocator.py",
        "        if free_index.numel() == 0:\n            return\n",
        "        if free_index.numel() == 0:\n            return\n"
        "        log = self.__dict__.setdefault('_log', [])\n"
        "        assert not any(one is free_index for one in log)\n"
        "        log.append(free_index)\n",
    ),
)
steps(
    "KeepsEveryStep",
    "attention keeps the batch of every step, and its output",
    KEYS,
    "        self.__dict__.setdefault('_steps', []).append((batch, q.clone()))\n" + KEYS,
)
steps(
    "PlansForEachLength",
    "a length that was not seen before is planned for, which takes 50 ms: each step of a decode has one",
    KEYS,
    "        plans = self.__dict__.setdefault('_plans', set())\n"
    "        if (len(lengths), max(lengths, default=0)) not in plans:\n"
    "            import time\n\n"
    "            time.sleep(0.05)\n"
    "            plans.add((len(lengths), max(lengths, default=0)))\n" + KEYS,
)
steps(
    "MaskOfTheWholeBatch",
    "a prefill makes a mask of all its new tokens by all tokens of the batch, which grows with the square of requests",
    KEYS,
    "        if sum(news) > len(news):\n"
    "            mask = torch.ones(sum(news), sum(lengths), dtype=torch.bool)\n"
    "            self._mask = mask.tril()\n" + KEYS,
)
ops(
    "RotaryCopiesItsTable",
    "each call copies the whole table of cosines",
    TABLE,
    "    cos, sin = op.cos_sin_cache.double().float()[positions].chunk(2, dim=-1)\n",
)
ops(
    "WorkspaceForEachLength",
    "the norm keeps a workspace for each number of rows that it ever saw",
    NORM,
    "    _WORK.setdefault(tuple(y.shape), torch.empty_like(y).zero_())\n" + NORM,
    "def silu_and_mul(",
    "_WORK: dict[Any, torch.Tensor] = {}\n\n\ndef silu_and_mul(",
)
