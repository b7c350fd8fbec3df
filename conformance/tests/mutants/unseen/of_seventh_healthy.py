"""Healthy, seventh set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from typing import Any

from broken import Table, at
from of_fifth_contracts import ENGINE
from of_sixth_contracts import SENDS
from of_third_lifecycle import method

parts = Table("healthy 7", "memory kernels graphs", "attention.py")

TURNED = (
    "    cos, sin = cos[:, None, :], sin[:, None, :]\n"
    "    a, b = a * cos - b * sin, b * cos + a * sin\n"
    "    pairs = torch.cat((a, b), dim=-1) if op.is_neox_style else torch.stack((a, b), dim=-1).flatten(-2)\n"
)
WEIGHTS = (
    "    if sinks is not None:\n"
    "        sink = sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)\n"
    "        weights = torch.softmax(torch.cat((scores, sink), dim=-1), dim=-1)[..., :n]\n"
    "    else:\n"
    "        weights = torch.softmax(scores, dim=-1)\n"
)
PARTS = (
    "        parts = [torch.empty_like(input_) for _ in range(self.world_size)]\n"
    "        dist.all_gather(parts, input_.contiguous(), group=self.group)\n"
    "        return torch.cat(parts, dim=dim)\n"
)


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "LeavesAsCompressedBytes",
    "what a request takes to the host is compressed, and knows its shape and type",
    at(
        "pools.py",
        '        return [buffer[indices].to("cpu") for buffer in self._buffers()]\n',
        "        import zlib\n\n"
        '        rows = [buffer[indices].to("cpu") for buffer in self._buffers()]\n'
        "        packed = [zlib.compress(one.view(torch.uint8).flatten().numpy(), 1) for one in rows]\n"
        "        return {'shapes': [(one.shape, one.dtype) for one in rows], 'bytes': packed}\n",
    ),
    at(
        "pools.py",
        "        if len(kv_cache_cpu[0]) != indices.numel():\n",
        "        import zlib\n\n"
        "        read = [torch.frombuffer(bytearray(zlib.decompress(one)) or bytearray(1), dtype=torch.uint8)\n"
        "                for one in kv_cache_cpu['bytes']]\n"
        "        kv_cache_cpu = [\n"
        "            one[: shape.numel() * dtype.itemsize].view(dtype).reshape(shape)\n"
        "            for one, (shape, dtype) in zip(read, kv_cache_cpu['shapes'], strict=True)\n"
        "        ]\n"
        "        if len(kv_cache_cpu[0]) != indices.numel():\n",
    ),
    levels="memory",
)
well(
    "SinksAreKeysOfNoValue",
    "a sink is one more key, whose value is zero, and weights are exponentials of what is over the sum's logarithm",
    WEIGHTS,
    "    if sinks is not None:\n"
    "        scores = torch.cat((scores, sinks.float().reshape(heads, 1, 1).expand(heads, m, 1)), dim=-1)\n"
    "        v = torch.cat((v, torch.zeros_like(v[:1])))\n"
    "    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))\n",
    levels="kernels graphs",
)
well(
    "TurnsByMatrices",
    "pairs are turned by a matrix of two rows for each, in float64",
    at(
        "ops.py",
        TURNED,
        "    turns = torch.stack((cos, -sin, sin, cos), dim=-1).double().unflatten(-1, (2, 2))\n"
        "    both = torch.einsum('tdij,thdj->thdi', turns, torch.stack((a, b), dim=-1).double()).float()\n"
        "    pairs = both.transpose(-1, -2).flatten(-2) if op.is_neox_style else both.flatten(-2)\n",
    ),
    levels="kernels",
)
well(
    "GathersByBroadcasts",
    "what is gathered is told by each rank in turn, into its part of the result",
    at(
        "communicator.py",
        PARTS,
        "        parts = [torch.empty_like(input_, memory_format=torch.contiguous_format) for _ in range(self.world_size)]\n"
        "        parts[self.rank].copy_(input_)\n"
        "        for rank, part in enumerate(parts):\n"
        "            dist.broadcast(part, src=dist.get_global_rank(self.group, rank), group=self.group)\n"
        "        return torch.cat(parts, dim=dim)\n",
    ),
    levels="distributed",
)
well(
    "EachBlockByItself",
    "blocks are sent one by one, each when the one before is there",
    method(
        ENGINE
        + "        class Own(TransferEngine):\n"
        + SENDS
        + "                send = super().batch_transfer_sync_write\n"
        "                if not lengths:\n"
        "                    return send(session, [], [], [])\n"
        "                each = zip(addresses, peers, lengths, strict=True)\n"
        "                return -1 if any(send(session, [a], [p], [n]) for a, p, n in each) else 0\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "DeclaresInSetsAndKeys",
    "what it supports is declared as sets and as a mapping's keys, in no order",
    at(
        "platform.py",
        "    supported_page_sizes = (1, 4, 16)\n    supported_kv_kinds = tuple(KINDS)\n",
        "    supported_page_sizes = frozenset({16, 1, 4})\n    supported_kv_kinds = KINDS.keys()\n",
    ),
    levels="contract memory kernels",
)
