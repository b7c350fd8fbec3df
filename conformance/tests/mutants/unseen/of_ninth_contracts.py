"""The contract, ninth set: graphs, communicators of odd widths, rows of odd bytes, masks beside rows without a grammar, second
engines, buffers after loading, packages. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_contracts import ENGINE, LOADED
from of_fifth_packaging import with_hooks
from of_seventh_contracts import BITMASK, PIECES, SCATTERED, USAGE
from of_sixth_graphs import INTO, SUM
from of_third_lifecycle import HOST_MEMORY, method
from of_third_packaging import on_import
from plugins import write_plugin

contract = Table("contract 9", "contract", "platform.py")
device = Table("device 9", "contract", "device.py")
graphs = Table("graphs 9", "graphs", "graph_runner.py")
groups = Table("communicator 9", "distributed", "communicator.py")
growth = Table("growth 9", "contract memory", "platform.py")
packages = Table("packaging 9", "packaging processes")

VARYING = "        return gathered if output is None else output.copy_(gathered)\n"

graphs(
    "NumbersOfAnOutputStay",
    "tensors without dimensions in an output, as a count of accepted drafts is, are those of the capture for ever",
    INTO,
    "                if into.dim():\n    " + INTO,
)
graphs(
    "APieceKeepsACopy",
    "between replays a piece keeps a copy of its output, and answers with that: it is the capture's for ever",
    PIECES,
    PIECES + "\n    def keep(self, output: Any) -> Any:\n"
    "        if isinstance(output, torch.Tensor):\n"
    "            return output.clone()\n"
    "        return type(output)(map(self.keep, output)) if isinstance(output, list | tuple) else output\n",
)

groups(
    "RowsOfTheRanksInAList",
    "all_gatherv answers with the rows of each rank in a list, of which the host takes the first (SGLang 28216)",
    VARYING,
    "        if output is None:\n            return list(gathered.split(rows))\n" + VARYING,
)
groups(
    "ColumnsBehindTiles",
    "of a scattered sum the columns behind the last whole tile of 32 are the rank's own (tt-metal 25212)",
    SCATTERED,
    SCATTERED + "        whole = output.shape[-1] // 32 * 32\n"
    "        if output.dim() > 1 and 0 < whole < output.shape[-1]:\n"
    "            own = input_.chunk(self.world_size)[self.rank]\n"
    "            output[..., whole:] = own[..., whole:]\n",
)
groups(
    "BytesCountedAsNumbers",
    "sums of up to 32,768 numbers go through a buffer of 64 KiB: of float32 what is behind 16,384 numbers is not summed "
    "(FasterTransformer 480)",
    SUM,
    "        input_ = input_.contiguous()\n"
    "        if input_.numel() <= 32768 and input_.nbytes > 65536:\n"
    "            fits = input_.view(-1)[: 65536 // input_.element_size()]\n"
    "            dist.all_reduce(fits, group=self.group)\n"
    "            return input_\n" + SUM.removeprefix("        input_ = input_.contiguous()\n"),
)

contract(
    "RowsOfTheListedWidths",
    "slots are copied by kernels for rows of whole 128 bytes: wider rows of another number, as the 656 of sparse attention, "
    "are an error (SGLang 31600)",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                for source in sources:\n"
        "                    width = source[:1].nbytes\n"
        "                    if width > 128 and width % 128:\n"
        '                        raise ValueError(f"no kernel copies rows of {width} bytes")\n'
        "                super().copy_slots(sources, targets, from_, to)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RowsWithoutAGrammar",
    "beside rows with a grammar, those without one, which allow every token, are taken for rows that allow none "
    "(vllm-gaudi 1199)",
    method(
        BITMASK + "            free = (bitmask == -1).all(dim=1)\n"
        "            if bool(free.any()) and not bool(free.all()):\n"
        "                bitmask = bitmask.masked_fill(free[:, None], 0)\n"
        "            apply_token_bitmask_(logits, bitmask)\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "TheFirstEngineForAll",
    "the connection that is open is taken whoever is meant: what is for a second engine goes to the first, and is refused "
    "there or lies where it must not",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def _peer(self, session: str) -> Any:\n"
        "                known = self._peers.__dict__.get('sockets', {})\n"
        "                return super()._peer(next(iter(known), session))\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "BuffersAreAttributes",
    "post_load_model makes plain attributes of a model's buffers: what the host keeps of them while the weights are "
    "released, and updates, leave them out",
    method(
        LOADED + "        for module in model.modules():\n"
        "            for name in [name for name, _ in module.named_buffers(recurse=False)]:\n"
        "                buffer = module._buffers.pop(name)\n"
        "                object.__setattr__(module, name, buffer)\n"
    ),
)

device(
    "OthersCountTwice",
    "the memory in use counts twice what other processes hold: a shared device has too little left (vllm-ascend 14276)",
    USAGE,
    "        import resource\n\n"
    "        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
    "        return float(total - free + max(total - free - own, 0))\n",
)

growth(
    "MasksAreLogged",
    "which tokens a grammar's mask forbade is kept for each step",
    method(
        BITMASK + "            apply_token_bitmask_(logits, bitmask)\n"
        "            logged.append(logits.isneginf())\n\n"
        "        logged: list[Any] = []\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)


@packages.written(
    "LibrariesAreGlobal",
    "the import has every library that is loaded later put its symbols before all others, and leaves it so",
)
def _(folder: Path) -> Any:
    return write_plugin(
        folder,
        activate=on_import("import os\nimport sys\n\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)"),
    )


@packages.written(
    "GeneralPluginListens",
    "its general plugin serves numbers at a port that is written down: in the second process of a launch it is an error",
)
def _(folder: Path) -> Any:
    return with_hooks(
        folder,
        "import socket\n\nSERVED = []\n\n\ndef install():\n"
        "    SERVED.append(socket.create_server(('127.0.0.1', 29187)))\n",
    )
