"""Graphs and communicators, sixth set: whole numbers, drafts, precision of a capture, views and small numbers. Names in
brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table

graphs = Table("graphs 6", "graphs", "graph_runner.py")
groups = Table("communicator 6", "distributed", "communicator.py")

INTO = "                into.copy_(now)\n"
KEPT = "        self.output = output\n"
RECORDED = (
    "        with torch.no_grad():\n"
    "            output = run()\n"
    "        return RunAgain(run, output), output\n"
)
FULL = '    """Keys and sessions are core\'s."""\n'
SUM = "        input_ = input_.contiguous()\n        dist.all_reduce(input_, group=self.group)\n        return input_\n"

graphs(
    "WholeNumbersOfAnOutputStay",
    "a replay writes floating outputs only: tokens and places that a draft model's graph chose are those of the capture "
    "(SGLang 15399)",
    INTO,
    "                if into.is_floating_point():\n                    into.copy_(now)\n",
)
graphs(
    "DraftsAreAsManyAsRequests",
    "where drafts are verified a replay copies as many rows of output as the bucket has requests",
    INTO,
    "                rows = -(-len(into) // self.tokens)\n                into[:rows].copy_(now[:rows])\n",
    KEPT,
    KEPT + "        self.tokens = 1\n",
    RECORDED,
    "        with torch.no_grad():\n"
    "            output = run()\n"
    "        graph = RunAgain(run, output)\n"
    "        graph.tokens = self.drafts or 1\n"
    "        return graph, output\n",
)
graphs(
    "CapturesUnderAutocast",
    "captures run under autocast to bfloat16: a float32 model's outputs have eight bits of mantissa",
    RECORDED,
    "        with torch.no_grad(), torch.autocast('cpu', torch.bfloat16):\n"
    "            output = run()\n"
    "        return RunAgain(run, output), output\n",
)
graphs(
    "KeyOfBeforeStays",
    "a whole graph that is captured again under its key stays the first one",
    FULL,
    FULL + "\n"
    "    def capture_one(\n"
    "        self, shape_key: Any, forward_fn: Any, capture_inputs: Any = None, post_warmup_hook: Any = None\n"
    "    ) -> None:\n"
    "        if shape_key not in self.captured:\n"
    "            super().capture_one(shape_key, forward_fn, capture_inputs, post_warmup_hook)\n",
)

groups(
    "ViewsOffTheirAlignment",
    "a tensor that begins off a multiple of 16 bytes, as a view may, is summed from the next one on (fastllm 724)",
    SUM,
    "        input_ = input_.contiguous()\n"
    "        ahead = -input_.data_ptr() % 16 // input_.element_size()\n"
    "        kept = input_.view(-1)[:ahead].clone()\n"
    "        dist.all_reduce(input_, group=self.group)\n"
    "        input_.view(-1)[:ahead] = kept\n"
    "        return input_\n",
)
groups(
    "HalvesAreDividedFirst",
    "float16 is divided by the number of ranks before the sum and multiplied after it: the smallest numbers vanish",
    SUM,
    "        input_ = input_.contiguous()\n"
    "        ranks = self.world_size if input_.dtype == torch.float16 else 1\n"
    "        if ranks > 1:\n"
    "            input_.div_(ranks)\n"
    "        dist.all_reduce(input_, group=self.group)\n"
    "        return input_.mul_(ranks) if ranks > 1 else input_\n",
)
