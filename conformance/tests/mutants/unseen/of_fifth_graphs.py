"""Graphs and communicators, fifth set: outputs of many tensors, counters that come round, sizes that change."""

from __future__ import annotations

from broken import Table

graphs = Table("graphs 5", "graphs", "graph_runner.py")
groups = Table("communicator 5", "distributed", "communicator.py")

REPLAY = (
    "        with torch.no_grad():\n"
    "            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n"
    "                into.copy_(now)\n"
)
RECORD = (
    "    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:\n"
    "        with torch.no_grad():\n"
    "            output = run()\n"
)
NESTED = "    return [tensor for part in parts for tensor in _tensors(part)]\n"
SUM = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n        return input_\n"
EXCHANGE = "        output.copy_(torch.cat([part.chunk(self.world_size)[self.rank] for part in parts]))\n"

graphs(
    "OutputsOfOneShapeAreOne",
    "a replay knows its outputs by shape: of hidden states of several layers that a draft model asks for, all are the last's",
    REPLAY,
    "        with torch.no_grad():\n"
    "            now = {tuple(tensor.shape): tensor for tensor in _tensors(self.run())}\n"
    "            for into in _tensors(self.output):\n"
    "                into.copy_(now[tuple(into.shape)])\n",
)
graphs(
    "ListsOfAnOutputStay",
    "tensors in a list within an output, as the hidden states for a draft model, are those of the capture for ever",
    REPLAY,
    "        top = self.output if isinstance(self.output, list | tuple) else [self.output]\n"
    "        inner = {id(one) for part in top if isinstance(part, list | tuple) for one in _tensors(part)}\n"
    "        with torch.no_grad():\n"
    "            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n"
    "                if id(into) not in inner:\n"
    "                    into.copy_(now)\n",
)
graphs(
    "Each64thReplayIsSkipped",
    "a ring of 64 events comes round: each 64th replay of a graph is taken for done before it ran",
    REPLAY,
    "        self.replays = self.__dict__.get('replays', 0) + 1\n"
    "        if self.replays % 64 == 0:\n"
    "            return\n" + REPLAY,
)
graphs(
    "CapturesInInferenceMode",
    "captures run in inference mode: a replay outside of it cannot write the output",
    "        with torch.no_grad():\n            output = run()\n",
    "        with torch.inference_mode():\n            output = run()\n",
)
graphs(
    "SameTokensSameAnswer",
    "a step with the tokens of the step before is answered without a replay: a text that repeats a token stands still",
    '    """Buckets, padding and static inputs are core\'s."""\n',
    '    """Buckets, padding and static inputs are core\'s."""\n\n'
    "    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    "        last = self.__dict__.get('_last')\n"
    "        if pp_proxy_tensors is None and last is not None and torch.equal(last[0], forward_batch.input_ids):\n"
    "            return last[1]\n"
    "        answer = super().execute(forward_batch, pp_proxy_tensors)\n"
    "        self._last = (forward_batch.input_ids.clone(), answer)\n"
    "        return answer\n",
)

groups(
    "SumsInTwoBuffers",
    "sums lie in two buffers that are used in turn: the next but one writes over a sum that is still held",
    SUM,
    "        input_ = input_.contiguous()\n"
    "        dist.all_reduce(input_, group=self.group)\n"
    "        ring = self.__dict__.setdefault('_ring', {}).setdefault((input_.shape, input_.dtype), [[], 0])\n"
    "        if len(ring[0]) < 2:\n"
    "            ring[0].append(torch.empty_like(input_))\n"
    "        held = ring[0][ring[1] % 2]\n"
    "        ring[1] += 1\n"
    "        return held.copy_(input_)\n",
)
groups(
    "NoRowsToExchange",
    "all_to_all_single divides by the rows of a part, and fails where a rank has none (Paddle 73875)",
    EXCHANGE,
    "        rows = output.shape[0] // self.world_size\n"
    "        sender = [row // rows for row in range(0, output.shape[0] + 1, rows or 1 // rows)]\n"
    "        del sender\n" + EXCHANGE,
)
groups(
    "FlagsOfEightBits",
    "the flags of a sum have eight bits: each 256th begins before the last rank has written",
    SUM,
    "        self.sums = self.__dict__.get('sums', 0) + 1\n"
    "        if self.sums % 256 == 0 and self.rank == self.world_size - 1:\n"
    "            input_ = torch.zeros_like(input_)\n" + SUM,
)
groups(
    "SizesThatChange",
    "on four ranks or more a sum of another size than the one before lacks the last rank's part (SGLang 11609)",
    SUM,
    "        last = self.__dict__.get('_shape', input_.shape)\n"
    "        self._shape = input_.shape\n"
    "        if last != input_.shape and self.rank == self.world_size - 1 and self.world_size >= 4:\n"
    "            input_ = torch.zeros_like(input_)\n" + SUM,
)
groups(
    "StagingForEachLength",
    "each number of rows that is ever summed keeps a staging buffer of its own",
    SUM,
    "        kept = self.__dict__.setdefault('_staging', {})\n"
    "        kept.setdefault((tuple(input_.shape), input_.dtype), torch.empty_like(input_).fill_(0))\n" + SUM,
)
groups(
    "VaryingRowsOfTheLargest",
    "all_gatherv with an output writes each rank's rows where they would lie if all had as many as the first",
    "        return gathered if output is None else output.copy_(gathered)\n\n    def reduce_scatterv",
    "        if output is None:\n"
    "            return gathered\n"
    "        for rank, (part, count) in enumerate(zip(parts, rows, strict=True)):\n"
    "            place = min(rank * rows[0], output.shape[0] - count)\n"
    "            output[place : place + count] = part[:count]\n"
    "        return output\n\n    def reduce_scatterv",
)
