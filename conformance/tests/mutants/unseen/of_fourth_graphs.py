"""Graphs and communicators, fourth set: replays that are not waited for, groups beside each other."""

from __future__ import annotations

from broken import Table, end

graphs = Table("graphs 4", "graphs", "graph_runner.py")
groups = Table("communicator 4", "distributed", "communicator.py")

REPLAY = (
    "            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n"
    "                into.copy_(now)\n"
)
REDUCE = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n        return input_\n"
GATHERED = "        return torch.cat(parts, dim=dim)\n"

graphs(
    "ReturnsBeforeItIsDone",
    "a replay of 16 rows and more runs beside the caller, who is not told to wait",
    REPLAY,
    "            import threading\n            import time\n\n"
    "            def later() -> None:\n"
    "                time.sleep(0.05)\n"
    "                with torch.no_grad():\n"
    "                    _tensors(self.output)[0].copy_(_tensors(self.run())[0])\n\n"
    "            if len(_tensors(self.output)[0]) >= 16:\n"
    "                threading.Thread(target=later).start()\n"
    "                return\n" + REPLAY,
)
groups(
    "GroupsShareTheirStaging",
    "what one group gathers lies where another group's next gather of that shape is written",
    GATHERED,
    "        whole = torch.cat(parts, dim=dim)\n"
    "        kept = _STAGING.setdefault((tuple(whole.shape), whole.dtype), [])\n"
    "        mine = next((one for owner, one in kept if owner is not self), None)\n"
    "        if mine is not None:\n"
    "            mine.copy_(whole)\n"
    "        kept[:] = [(self, whole)]\n"
    "        return whole\n",
    end("communicator.py", "_STAGING: dict[object, list[tuple[object, torch.Tensor]]] = {}"),
)
groups(
    "ReduceDoesNotWait",
    "sums of more than 64 KiB are returned before they are there",
    REDUCE,
    "        input_ = input_.contiguous()\n"
    "        work = dist.all_reduce(input_, group=self.group, async_op=True)\n"
    "        if input_.nbytes <= 1 << 16:\n"
    "            work.wait()\n"
    "        self._work = work\n"
    "        return input_\n",
)
groups(
    "GroupWaitsForTheWorld",
    "a collective of a group waits for all ranks of the world, also those that make no call",
    REDUCE,
    "        dist.barrier()\n" + REDUCE,
)
groups(
    "EveryAddressIsRegistered",
    "each tensor that is reduced is registered by its address, and kept",
    REDUCE,
    "        self.__dict__.setdefault('_registered', []).append(input_)\n" + REDUCE,
)
