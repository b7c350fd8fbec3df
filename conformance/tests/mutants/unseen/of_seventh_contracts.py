"""The contract, seventh set: copies, transfers, masks, graphs, communicators, packages. Names in brackets are bugs of other
projects that a defect is modelled on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broken import Table
from of_fifth_contracts import ENGINE
from of_sixth_contracts import SENDS
from of_third_lifecycle import HOST_MEMORY, method
from of_third_packaging import asked
from plugins import ACTIVATE, write_plugin

contract = Table("contract 7", "contract", "platform.py")
device = Table("device 7", "contract", "device.py")
graphs = Table("graphs 7", "graphs", "graph_runner.py")
groups = Table("communicator 7", "distributed", "communicator.py")
growth = Table("growth 7", "contract memory", "platform.py")
packages = Table("packaging 7", "packaging processes")

BITMASK = (
    "    def get_token_bitmask_fn(self) -> Any:\n"
    "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
    "        def apply(logits: Any, bitmask: Any) -> None:\n"
)
PIECES = '    """Token counts and where tensors lie are core\'s."""\n'
ONE_DEVICE = '        """There is one device."""\n'
USAGE = "        return float(total - free)\n"
GATHERED = "        output.copy_(self.all_gather(input_, dim=0))\n"
SCATTERED = "        output.copy_(self.reduce_scatter(input_, dim=0))\n"
MINE = "        mine = total[start : start + rows[self.rank]]\n"

contract(
    "CopiesThroughNumpy",
    "copies with the host go through numpy, which has no bfloat16: they are an error (vLLM 393)",
    method(
        HOST_MEMORY + "        import torch\n\n"
        "        class Own(HostMemory):\n"
        "            def copy(self, pairs: Any) -> None:\n"
        "                for target, source in pairs:\n"
        "                    target.copy_(torch.from_numpy(source.numpy()))\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RunsInEitherDirection",
    "slots that go down one by one are a run as well, and it is copied upwards: where the others go up, tokens arrive in "
    "reverse",
    method(
        HOST_MEMORY + "        class Own(HostMemory):\n"
        "            def copy_slots(self, sources: Any, targets: Any, from_: Any, to: Any) -> None:\n"
        "                if all(one.numel() > 1 and bool((one.diff().abs() == 1).all()) for one in (from_, to)):\n"
        "                    if bool((from_.diff(n=2) == 0).all()) and bool((to.diff(n=2) == 0).all()):\n"
        "                        from_, to = from_.sort().values, to.sort().values\n"
        "                super().copy_slots(sources, targets, from_, to)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "NeighboursHereAreNeighboursThere",
    "blocks that lie side by side in this engine's memory are sent as one, wherever the other's lie (vllm-ascend 10342)",
    method(
        ENGINE
        + "        class Own(TransferEngine):\n"
        + SENDS
        + "                joined: list[list[int]] = []\n"
        "                for address, peer, length in zip(addresses, peers, lengths, strict=True):\n"
        "                    if joined and joined[-1][0] + joined[-1][2] == address:\n"
        "                        joined[-1][2] += length\n"
        "                    else:\n"
        "                        joined.append([address, peer, length])\n"
        "                each = [list(one) for one in zip(*joined, strict=True)] or [[], [], []]\n"
        "                return super().batch_transfer_sync_write(session, *each)\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "UnregistersWhatLiesBehind",
    "memory that is no longer registered takes with it what lies at higher addresses",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def unregister_memory(self, address: int) -> int:\n"
        "                found = any(region.start == address for region in self._regions)\n"
        "                self._regions = [region for region in self._regions if region.start < address]\n"
        "                return 0 if found else -1\n\n"
        "        return Own\n"
    ),
    levels="contract memory",
)
contract(
    "RowsByTheirFirstWord",
    "a row of a grammar's mask whose first word allows all of its tokens is taken for one without a grammar",
    method(
        BITMASK + "            rows = (bitmask[:, 0] != -1).nonzero().flatten()\n"
        "            masked = logits[rows]\n"
        "            apply_token_bitmask_(masked, bitmask[rows])\n"
        "            logits[rows] = masked\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "WordAfterWord",
    "a grammar's mask is applied word after word: a step with a vocabulary of 128,000 tokens takes 4,000 launches",
    method(
        BITMASK + "            for word in range(bitmask.shape[1]):\n"
        "                part = logits[:, 32 * word : 32 * (word + 1)]\n"
        "                if part.shape[1]:\n"
        "                    apply_token_bitmask_(part, bitmask[:, word : word + 1])\n"
        "            logits[:, 32 * bitmask.shape[1] :] = float('-inf')\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "AlgorithmsByATable",
    "supports_speculative_algorithm looks a name up in a table, and is a KeyError for one that is not there",
    method(
        "    def supports_speculative_algorithm(self, algorithm: str) -> bool:\n"
        '        return {"EAGLE": False, "EAGLE3": False}[algorithm]\n'
    ),
)

device(
    "SetDeviceInTheMainThread",
    "set_device is an error in any thread but the first (vllm-tt-plugin 6)",
    ONE_DEVICE,
    ONE_DEVICE + "        import threading\n\n"
    "        if threading.current_thread() is not threading.main_thread():\n"
    '            raise RuntimeError("the device belongs to another thread")\n',
)
device(
    "UsageSinceTheLastQuestion",
    "each question for the memory in use starts the peak anew: the second answer is what came since the first",
    USAGE,
    "        before, self._used = self.__dict__.get('_used', 0), total - free\n"
    "        return float(max(self._used - before, 0))\n",
)

graphs(
    "PiecesWarmTogether",
    "that a count of tokens has run once is known to all pieces together: all but the first are captured in their first "
    "run",
    PIECES,
    PIECES + "\n    _all_warm: set[int] = set()\n\n"
    "    def __init__(self, *args: Any, **kwargs: Any) -> None:\n"
    "        super().__init__(*args, **kwargs)\n"
    "        self._warm = self._all_warm\n",
)
graphs(
    "NumbersOfAPieceAreForgotten",
    "of what a piece was captured with its tensors are compared, and not the numbers beside them",
    PIECES,
    PIECES + "\n    def __call__(self, *args: Any) -> Any:\n"
    "        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0\n"
    "        captured = self.captured.get(tokens)\n"
    "        known = () if captured is None else zip(args, captured.arguments, strict=True)\n"
    "        if captured is None or any(hasattr(x, 'data_ptr') and x.data_ptr() != at for x, at in known):\n"
    "            return super().__call__(*args)\n"
    "        captured.graph.replay()\n"
    "        return captured.output\n",
)
groups(
    "ScatterOfATransposedTensor",
    "a tensor that is a transposed view is scattered in the order of its memory (torch 130251)",
    SCATTERED,
    "        if not input_.is_contiguous():\n"
    "            input_ = input_.as_strided(input_.shape, input_.new_empty(input_.shape, device='meta').stride())\n"
    + SCATTERED,
)
groups(
    "GathersToTheBeginning",
    "what is gathered into a part of a buffer is written to the buffer's beginning",
    GATHERED,
    "        output = output.as_strided(output.shape, output.stride(), 0)\n" + GATHERED,
)
groups(
    "ShareOfNoRows",
    "a rank whose share of a scattered sum has no rows, as an idle one's, gets an error",
    MINE,
    MINE + '        if not len(mine):\n            raise ValueError("a share has one row or more")\n',
)

growth(
    "AConnectionForEachTransfer",
    "each transfer opens a connection of its own, and none is closed",
    method(
        ENGINE + "        class Own(TransferEngine):\n"
        "            def _peer(self, session: str) -> Any:\n"
        "                known = self._peers.__dict__.get('sockets', {}).pop(session, None)\n"
        "                self.__dict__.setdefault('_kept', []).append(known)\n"
        "                return super()._peer(session)\n\n"
        "        return Own\n"
    ),
)


@packages.written(
    "PackageAsksTheHostFirst",
    "the package asks the host for its platform while it is imported: it is looked at half imported, without its "
    "function (vllm-rbln 876)",
)
def _(folder: Path) -> Any:
    text = "from sglang.srt.platforms import current_platform\n\nTYPE = current_platform.device_type\n\n"
    return write_plugin(folder, activate=text + ACTIVATE)


@packages.written(
    "VersionsAsText",
    "activate() compares torch's version as text, and says no to 2.10 and later: they are below 2.9 (Automodel 3039)",
)
def _(folder: Path) -> Any:
    text = "    from importlib.metadata import version\n\n    if version('torch') < '2.9':\n        return None\n"
    return write_plugin(folder, activate=asked(text))
