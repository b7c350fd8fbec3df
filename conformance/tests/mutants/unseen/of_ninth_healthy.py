"""Healthy, ninth set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table, at
from of_fifth_contracts import ENGINE, SAVER
from of_seventh_ops import HALVES
from of_sixth_attention import SCORES
from of_sixth_memory import WRITE
from of_sixth_states import SPACE, SPACED
from of_third_lifecycle import method
from of_third_states import kernel
from plugins import ACTIVATE, PACKAGE, write_plugin

parts = Table("healthy 9", "memory kernels graphs", "attention.py")

REPEATED = (
    "    k = k.repeat_interleave(heads // kv_heads, dim=1)\n"
    "    v = v.repeat_interleave(heads // kv_heads, dim=1)\n"
)
SUMMED = '    return torch.einsum("hij,jhd->ihd", weights, v)\n'
EXCHANGED = (
    "        parts = [torch.empty_like(input_) for _ in range(self.world_size)]\n"
    "        dist.all_gather(parts, input_.contiguous(), group=self.group)\n"
    "        output.copy_(torch.cat([part.chunk(self.world_size)[self.rank] for part in parts]))\n"
)


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "RowsAreStoredAsBits",
    "rows are stored as whole numbers of their width, whatever their type",
    at(
        "pools.py",
        WRITE,
        "        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[buffer.element_size()]\n"
        "        rows = rows.contiguous().view(bits).reshape(-1, *buffer.shape[1:])\n"
        "        buffer.view(bits).index_put_((loc.reshape(-1).long(),), rows)\n",
    ),
)
well(
    "HeadsInGroups",
    "query heads are grouped by the key head that they share, and no key is repeated",
    REPEATED,
    "    shared = (kv_heads, heads // kv_heads)\n",
    SCORES,
    '    scores = torch.einsum("igad,jgd->gaij", q.unflatten(1, shared), k).flatten(0, 1) * layer.scaling\n',
    SUMMED,
    '    return torch.einsum("gaij,jgd->igad", weights.unflatten(0, shared), v).flatten(1, 2)\n',
    levels="kernels graphs",
)
well(
    "SigmoidByATanh",
    "the sigmoid of a gate is half of one and the tanh of its half, in float64",
    at(
        "ops.py",
        HALVES,
        "    gate, up = x.double().chunk(2, dim=-1)\n"
        "    return (gate * (0.5 + 0.5 * torch.tanh(0.5 * gate)) * up).to(x.dtype)\n",
    ),
    levels="kernels",
)
well(
    "ExchangesByTorch",
    "all_to_all_single is torch.distributed's own",
    at(
        "communicator.py",
        EXCHANGED,
        "        whole = torch.empty(output.shape, dtype=output.dtype, device=output.device)\n"
        "        dist.all_to_all_single(whole, input_.contiguous(), group=self.group)\n"
        "        output.copy_(whole)\n",
    ),
    levels="distributed",
)
well(
    "ProbesByAConnectionOfTheirOwn",
    "a probe opens a connection, and closes it",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def send_probe(self, session: str) -> int:\n"
        "                known = self._peers.__dict__.setdefault('sockets', {})\n"
        "                in_use = known.pop(session, None)\n"
        "                answer = super().send_probe(session)\n"
        "                self._forget(session)\n"
        "                if in_use is not None:\n"
        "                    known[session] = in_use\n"
        "                return answer\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "ContentLiesInAFile",
    "what is released with its content lies in a file without a name until it is resumed",
    method(
        SAVER + "        import tempfile\n\n"
        "        import torch\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                super().release(tag, tensors, keep_content=keep_content)\n"
        "                self._held[tag] = [one._replace(content=self._file(one.content)) for one in self._held[tag]]\n\n"
        "            def resume(self, tag: str) -> bool:\n"
        "                if tag in self._held:\n"
        "                    held = self._held[tag]\n"
        "                    self._held[tag] = [one._replace(content=self._read(one.content)) for one in held]\n"
        "                return super().resume(tag)\n\n"
        "            def _file(self, content: Any) -> Any:\n"
        "                if content is None:\n"
        "                    return None\n"
        "                file = tempfile.TemporaryFile()\n"
        "                file.write(torch.empty(0, dtype=torch.uint8).set_(content).numpy().tobytes())\n"
        "                file.seek(0)\n"
        "                return file\n\n"
        "            def _read(self, file: Any) -> Any:\n"
        "                if file is None:\n"
        "                    return None\n"
        "                with file:\n"
        "                    return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).untyped_storage()\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "SpaceTokenByToken",
    "a prefill of a state space is one decode after another, on states in float32",
    kernel(
        "state_space",
        SPACE
        + "            if starts is None:\n    "
        + SPACED
        + "            wide, y, bounds = states.float(), torch.zeros_like(x), starts.tolist()\n"
        "            for request, (begin, end) in enumerate(zip(bounds, bounds[1:])):\n"
        "                one = slots[request : request + 1]\n"
        "                for at in range(begin, end):\n"
        "                    now = slice(at, at + 1)\n"
        "                    y[now] = plain(x[now], step[now], a, b[now], c[now], d, None, one, wide)\n"
        "            own = slots[slots >= 0].long()\n"
        "            states[own] = wide[own].to(states.dtype)\n"
        "            return y\n",
    ),
    levels="kernels",
)
well(
    "MappingsThatCannotBeChanged",
    "attention backends and state kernels are answered in mappings that cannot be changed",
    at(
        "platform.py",
        "        return {NAME: ReferenceAttention}\n",
        "        from types import MappingProxyType\n\n"
        "        return MappingProxyType({NAME: ReferenceAttention})\n",
    ),
    method(
        "    def get_state_kernels(self) -> Any:\n"
        "        from types import MappingProxyType\n\n"
        "        from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS\n\n"
        "        return MappingProxyType(dict(PORTABLE_STATE_KERNELS))\n"
    ),
    levels="contract memory kernels",
)
well(
    "NamesOfOtherAlphabets",
    "the device's product name has letters that are not in ASCII, and blanks between them",
    at(
        "device.py",
        '        return f"reference device on {platform.machine()}"\n',
        '        return f"Größe 7 加速器 ({platform.machine()})"\n',
    ),
    levels="contract",
)


@parts.written(
    "PlatformWhenItIsAskedFor",
    "the platform's class is an attribute of the package that is imported when it is first asked for",
    levels="packaging processes contract",
    healthy=True,
)
def _(folder: Path) -> Any:
    lazy = (
        "\n\ndef __getattr__(name):\n"
        '    if name != "Platform":\n'
        '        raise AttributeError(f"module {__name__} has no attribute {name}")\n'
        f"    from {PACKAGE}.platform import Platform\n\n"
        "    return Platform\n"
    )
    return write_plugin(folder, activate=ACTIVATE.replace(".platform:Platform", ":Platform") + lazy)
