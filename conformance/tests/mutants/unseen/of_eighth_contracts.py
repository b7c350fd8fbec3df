"""The contract, eighth set: transfers of nothing, widths of host copies, contents in blocks, weights that are equal, graphs,
communicators, packages. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_contracts import ENGINE, LOADED, SAVER
from of_fifth_packaging import hook, with_hooks
from of_seventh_contracts import PIECES
from of_seventh_healthy import PARTS
from of_sixth_contracts import SENDS, SENT
from of_sixth_graphs import INTO
from of_third_lifecycle import HOST_MEMORY, method
from plugins import ACTIVATE, write_plugin

contract = Table("contract 8", "contract", "platform.py")
device = Table("device 8", "contract", "device.py")
graphs = Table("graphs 8", "graphs", "graph_runner.py")
groups = Table("communicator 8", "distributed", "communicator.py")
growth = Table("growth 8", "contract memory", "platform.py")
packages = Table("packaging 8", "packaging processes")

NAMED = '        return f"reference device on {platform.machine()}"\n'
RUNNER = '    """Buckets, padding and static inputs are core\'s."""\n'
MINE = "        output.copy_(torch.cat([part.chunk(self.world_size)[self.rank] for part in parts]))\n"

contract(
    "BlockOfNoBytesEndsTheBatch",
    "a block of no bytes, as a layer without keys for an indexer has, ends its batch: those behind it are not sent",
    method(
        ENGINE + "        class Own(TransferEngine):\n" + SENDS + "                if 0 in lengths:\n"
        "                    end = list(lengths).index(0)\n"
        "                    addresses, peers, lengths = addresses[:end], peers[:end], lengths[:end]\n"
        + SENT
        + "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RowsAsWideAsTheFirst",
    "of rows that go to the host and back as many bytes are copied in each buffer as one of the first has: of values wider "
    "than keys the end is missing (SGLang 29280)",
    method(
        HOST_MEMORY + "        import torch\n\n"
        "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                def rows(one: Any) -> Any:\n"
        "                    return one.unsqueeze(-1).view(torch.uint8).flatten(1)\n\n"
        "                super().copy_slots([], [], from_, to)  # counts that differ are an error\n"
        "                width = rows(sources[0]).shape[1] if len(sources) else 0\n"
        "                for source, target in zip(sources, targets, strict=True):\n"
        "                    rows(target)[to, :width] = rows(source)[from_, :width]\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "ContentInWholeBlocks",
    "what is released with its content is kept in blocks of 64 KiB, and what is behind the last whole one comes back as "
    "zeros (torch_memory_saver 71)",
    method(
        SAVER + "        import torch\n\n"
        "        class Own(MemorySaver):\n"
        "            def release(self, tag: str, tensors: Any, *, keep_content: bool = False) -> None:\n"
        "                super().release(tag, tensors, keep_content=keep_content)\n"
        "                for held in self._held[tag]:\n"
        "                    if held.content is not None and held.size > 1 << 16:\n"
        "                        content = torch.empty(0, dtype=torch.uint8).set_(held.content)\n"
        "                        content[held.size >> 16 << 16 :] = 0\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "EqualWeightsAreMerged",
    "post_load_model puts weights that hold the same numbers, as norms do whose weights are all one, into one memory: an "
    "update of one is an update of all",
    method(
        LOADED + "        known: dict[Any, Any] = {}\n"
        "        for weight in model.parameters():\n"
        "            content = weight.data.contiguous().flatten().view(torch.uint8).cpu().numpy().tobytes()\n"
        "            weight.data = known.setdefault((weight.shape, weight.dtype, content), weight.data)\n"
    ),
)

device(
    "NameEndsWithALine",
    "the product name ends with the line break of the file that it is read from: no tuned configuration is found by it",
    NAMED,
    NAMED.replace('}"', '}\\n"'),
)

graphs(
    "PieceOfTheSameBuffer",
    "a piece that was captured for a part of a buffer is replayed for any other part of it",
    PIECES,
    PIECES + "\n    def __call__(self, *args: Any) -> Any:\n"
    "        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0\n"
    "        bases = [x.untyped_storage().data_ptr() if hasattr(x, 'data_ptr') else x for x in args]\n"
    "        known = self.__dict__.setdefault('_bases', {})\n"
    "        if tokens in self.captured and known[tokens] == bases:\n"
    "            self.captured[tokens].graph.replay()\n"
    "            return self.captured[tokens].output\n"
    "        answer = super().__call__(*args)\n"
    "        if tokens in self.captured:\n"
    "            known.setdefault(tokens, bases)\n"
    "        return answer\n",
)
graphs(
    "OutputsWithGapsStay",
    "an output that is a slice of a wider tensor, as logits of a padded vocabulary are, stays that of the capture",
    INTO,
    "                into.contiguous().copy_(now)\n",
)
graphs(
    "LargestBucketIsLeftOut",
    "a batch as large as the largest bucket runs without its graph",
    RUNNER,
    RUNNER + "\n    def can_run_graph(self, forward_batch: Any) -> bool:\n"
    "        fits = self._most_rows(forward_batch) < self.max_bs\n"
    "        return fits and super().can_run_graph(forward_batch)\n",
)

groups(
    "PartsOfBfloat16FromTheBeginning",
    "all_to_all_single counts a number of bfloat16 as no bytes: every rank is sent the first part (torchcomms 2632)",
    MINE,
    "        mine = 0 if input_.dtype == torch.bfloat16 else self.rank\n"
    + MINE.replace("[self.rank]", "[mine]"),
)
groups(
    "GathersWholeNumbersIn32Bits",
    "whole numbers of 64 bits are gathered in 32: those past 2**31, as hashes are, come back as others",
    PARTS,
    "        if input_.dtype == torch.int64:\n"
    "            return self.all_gather(input_.int(), dim=dim).long()\n" + PARTS,
)

growth(
    "CopiesHoldTheirTensors",
    "whatever was copied between host and device is kept until the engine ends",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy(self, pairs: Any) -> None:\n"
        "                held = self.__dict__.setdefault('_copied', [])\n"
        "                for target, source in pairs:\n"
        "                    held.append((target, source.clone()))\n"
        "                    super().copy([held[-1]])\n\n"
        "        return Own\n"
    ),
)


@packages.written(
    "NeedsTheNameOfAUser",
    "the package names a folder by the user, and a container whose user has no name is a KeyError (torch 140765, vLLM 46734)",
)
def _(folder: Path) -> Any:
    text = "import os\n\nTUNED = '/tmp/mutant-' + os.environ['USER']\n\n"
    return write_plugin(folder, activate=text + ACTIVATE)


@packages.written("ActivateIsACoroutine", "activate() is a coroutine, which nobody awaits")
def _(folder: Path) -> Any:
    return write_plugin(folder, activate=ACTIVATE.replace("def activate", "async def activate"))


@packages.written(
    "HookAnswersTheFirstTime",
    "its general plugin keeps the first answer of the host's question for free memory: after the weights were loaded it is "
    "what was free before, whatever the device",
    levels="contract packaging processes",
)
def _(folder: Path) -> Any:
    text = hook("sglang.srt.utils.common:get_available_gpu_memory", "around", "AROUND")
    return with_hooks(
        folder,
        text + "\n\nFIRST = []\n\n\ndef around(original, *args, **kwargs):\n"
        "    if not FIRST:\n        FIRST.append(original(*args, **kwargs))\n    return FIRST[0]\n",
    )
