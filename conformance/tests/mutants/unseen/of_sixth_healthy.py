"""Healthy, sixth set: unusual, and right by the contract. Nothing may fail on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table, at
from of_third_lifecycle import HOST_MEMORY, method
from of_third_states import kernel
from plugins import ACTIVATE, PACKAGE, PLATFORM, write_plugin

parts = Table("healthy 6", "memory kernels graphs", "attention.py")
packages = Table("healthy 6", "packaging processes")

SUM = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n        return input_\n"
HEADS = '    return torch.einsum("hij,jhd->ihd", weights, v)\n'


def well(name: str, what: str, *words: Any, levels: str = "") -> None:
    parts(name, what, *words, levels=levels, healthy=True)


well(
    "EvenPagesFirst",
    "pages of even numbers are lent before the odd ones, where they need not be sorted",
    at(
        "allocator.py",
        "        self._free = list(range(1, self.num_pages + 1))\n",
        "        pages = range(1, self.num_pages + 1)\n"
        "        self._free = sorted(pages, key=lambda page: 0 if self.need_sort else page % 2)\n",
    ),
    levels="memory",
)
well(
    "StoredInTheOrderOfSlots",
    "rows are stored in the order of their slots, the last of a slot's last",
    at(
        "pools.py",
        "        buffer[loc.reshape(-1)] = rows.reshape(-1, *buffer.shape[1:])\n",
        "        order = torch.sort(loc.reshape(-1), stable=True).indices\n"
        "        buffer[loc.reshape(-1)[order]] = rows.reshape(-1, *buffer.shape[1:])[order]\n",
    ),
    levels="memory kernels",
)
well(
    "PowersOfTwo",
    "weights are powers of two, of scores that were scaled by the logarithm of e, and are divided by their sum at last",
    "        weights = torch.softmax(scores, dim=-1)\n",
    "        most = scores.amax(dim=-1, keepdim=True)\n"
    "        most = torch.where(most == float('-inf'), 0.0, most)\n"
    "        powers = torch.exp2((scores - most) * 1.4426950408889634)\n"
    "        total = powers.sum(dim=-1)\n"
    '        return torch.einsum("hij,jhd->ihd", powers, v) / total.T[..., None]\n',
    levels="kernels graphs",
)
well(
    "HeadAfterHead",
    "the heads of a request are weighted one after another, and stand in memory head by head",
    HEADS,
    "    parts = [weights[head] @ v[:, head] for head in range(heads)]\n"
    "    return torch.stack(parts).transpose(0, 1) if parts else v.new_empty(m, 0, v.shape[-1])\n",
    levels="kernels graphs",
)
well(
    "PrefillIsNeverCut",
    "prefill is not compiled in pieces: the capability is not declared, and there is no backend for it",
    at(
        "platform.py",
        "PlatformCapabilities(graph_capture=True, piecewise_graph=True, fp8=True)",
        "PlatformCapabilities(graph_capture=True, fp8=True)",
    ),
    at(
        "platform.py",
        "        from sglang_platform.conformance.reference.graph_runner import ReferencePiecewiseBackend\n\n"
        "        return ReferencePiecewiseBackend\n",
        "        return None\n",
    ),
    levels="contract graphs",
)
well(
    "SumsInPieces",
    "a tensor of more than 4,096 numbers is summed piece by piece",
    at(
        "communicator.py",
        SUM,
        "        input_ = input_.contiguous()\n"
        "        for piece in input_.view(-1).split(4096):\n"
        "            dist.all_reduce(piece, group=self.group)\n"
        "        return input_\n",
    ),
    levels="distributed",
)
well(
    "GatedNormInFloat64",
    "the gated norm is computed in float64",
    kernel(
        "gated_rms_norm",
        "        def own(x, gate, weight, *, epsilon, activation, group_size, gate_first):\n"
        "            wide = [None if one is None else one.double() for one in (x, gate, weight)]\n"
        "            more = dict(activation=activation, group_size=group_size, gate_first=gate_first)\n"
        "            return plain(*wide, epsilon=epsilon, **more).to(x.dtype)\n",
    ),
    levels="kernels",
)
well(
    "CopiesThroughAStagingBuffer",
    "copies between host and device go through a buffer of their own",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy(self, pairs: Any) -> None:\n"
        "                for target, source in pairs:\n"
        "                    target.copy_(source.clone())\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
well(
    "RunsNothingQuantised",
    "every method of quantisation is refused in words",
    method(
        "    def verify_quantization(self, quant: str) -> None:\n"
        '        raise ValueError(f"{quant} does not run on the reference device: serve the weights as they are")\n\n'
        "    def get_quantization_config(self, quantization: str) -> type | None:\n"
        '        raise ValueError(f"{quantization} does not run on the reference device")\n'
    ),
    levels="contract",
)


@packages.written(
    "PlatformDeepInAPackage",
    "the platform's class lies three packages deep, beside nothing else",
    healthy=True,
)
def _(folder: Path) -> Any:
    deep = f"{PACKAGE}/devices/first/generation"
    names = [f"{deep.rsplit('/', up)[0] if up else deep}/__init__.py" for up in range(3)]
    files = dict.fromkeys(names, "") | {f"{deep}/platform.py": PLATFORM}
    activate = ACTIVATE.replace(
        "mutant_platform.platform:", "mutant_platform.devices.first.generation.platform:"
    )
    assert activate != ACTIVATE
    return write_plugin(folder, activate=activate, files=files)
