"""Healthy, fifth set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from typing import Any

from broken import Table, at
from of_third_states import kernel

parts = Table("healthy 5", "memory kernels graphs", "attention.py")

SUM = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n        return input_\n"
NUMBERS = "    return rows.float() if scale is None else rows.float() * scale\n"
RECORDED = "        with torch.no_grad():\n            output = run()\n        return RunAgain(run, output), output\n"


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "AttentionInFloat64",
    "scores and values are computed in float64",
    "query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).float()",
    "query = q.reshape(-1, layer.tp_q_head_num, layer.qk_head_dim).double()",
    NUMBERS,
    "    return rows.float().double() if scale is None else rows.float().double() * scale\n",
    "        sink = sinks.float()",
    "        sink = sinks.double()",
    levels="kernels graphs",
)
well(
    "RequestsFromTheLast",
    "requests of a batch are computed last first, each once all are stored",
    "        first = 0\n"
    "        for row, length, new in zip(batch.req_pool_indices.tolist(), lengths, news, strict=True):\n",
    "        ends = [sum(news[: at + 1]) for at in range(len(news))]\n"
    "        each = list(zip(batch.req_pool_indices.tolist(), lengths, news, ends, strict=True))\n"
    "        for row, length, new, end in reversed(each):\n"
    "            first = end - new\n",
    "            first += new\n",
    "",
    levels="kernels graphs",
)
well(
    "FreesWaitUntilTheyAreNeeded",
    "pages that come back are set aside, and taken in when the others are used up",
    at(
        "allocator.py",
        "        self._free = pages + self._free\n",
        "        self._free = self._free + sorted(pages)\n",
    ),
    levels="memory",
)
well(
    "ServesRotationAndNormAlone",
    "of the ops of its own it registers two, and leaves the others to the host",
    at("ops.py", "    FusedOp.register_oot_forward(SiluAndMul, silu_and_mul, dispatch_key)\n", ""),
    at("ops.py", "    FusedOp.register_oot_forward(MoEExperts, moe_experts, dispatch_key)\n", ""),
    at("ops.py", "    more_ops.register(dispatch_key)\n", ""),
    levels="kernels contract",
)
well(
    "SumsByGathering",
    "a sum gathers all parts and adds them up in the order of ranks, into a new tensor",
    at(
        "communicator.py",
        SUM,
        "        parts = [torch.empty_like(input_, memory_format=torch.contiguous_format) for _ in range(self.world_size)]\n"
        "        dist.all_gather(parts, input_.contiguous(), group=self.group)\n"
        "        wide = torch.float32 if input_.is_floating_point() and input_.dtype.itemsize == 2 else input_.dtype\n"
        "        return torch.stack(parts).to(wide).sum(dim=0, dtype=wide).to(input_.dtype)\n",
    ),
    levels="distributed",
)
well(
    "OutputsInOneArena",
    "outputs of graphs lie behind one another in one piece of memory, off its beginning",
    at(
        "graph_runner.py",
        RECORDED,
        "        with torch.no_grad():\n"
        "            output = run()\n"
        "            if isinstance(output, torch.Tensor):\n"
        "                arena = output.new_zeros(output.numel() + 64)\n"
        "                output = arena[64:].view(output.shape).copy_(output)\n"
        "        return RunAgain(run, output), output\n",
    ),
    levels="graphs",
)
well(
    "DeltaRequestByRequest",
    "the delta rule computes one request after another",
    kernel(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            if starts is None:\n"
        "                return plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
        "            y, befores, bounds = torch.zeros_like(v), [], starts.tolist()\n"
        "            for at, (begin, end) in enumerate(zip(bounds, bounds[1:])):\n"
        "                one = slice(begin, end)\n"
        "                part, before = plain(\n"
        "                    q[one], k[one], v[one], log_decay[one], step[one], starts.new_tensor([0, end - begin]),\n"
        "                    slots[at : at + 1], states, scale=scale\n"
        "                )\n"
        "                y[one] = part\n"
        "                befores.append(before)\n"
        "            return y, torch.cat(befores)\n",
    ),
    levels="kernels",
)
well(
    "NoGraphsForDrafts",
    "the backend for a draft model's graphs is refused by name",
    at(
        "platform.py",
        "        from sglang_platform.conformance.reference.graph_runner import ReferenceFullGraphBackend\n\n"
        "        return ReferenceFullGraphBackend\n",
        '        raise NotImplementedError("draft models run without graphs on this device")\n',
    ),
    levels="contract graphs",
)
well(
    "GivesHeapBack",
    "empty_cache gives the heap's free memory back to the system",
    at(
        "device.py",
        "    def get_torch_profiler_activity_str",
        "    def empty_cache(self) -> None:\n"
        "        import ctypes\n\n"
        "        trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)\n"
        "        if trim is not None:\n"
        "            trim(0)\n\n"
        "    def get_torch_profiler_activity_str",
    ),
    levels="contract",
)
