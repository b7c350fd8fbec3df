"""Level 5 mutants: decode graph runners."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

graph = partial(patch, __name__, file="graph_runner.py")

_CLASS = '    """Buckets, padding and static inputs are core\'s."""\n'
_LOADS = (
    "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    "        whole = self.inputs.load\n"
    "        def load(batch, bucket):\n{body}\n"
    "        self.inputs.load = load\n"
    "        try:\n            return super().execute(forward_batch, pp_proxy_tensors)\n"
    "        finally:\n            del self.inputs.load\n"
)


def _with_load(body: str) -> str:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    return _CLASS + _LOADS.format(body=lines)


graph(
    "StageInputsOfTheFirstStep",
    old=_CLASS,
    new=_CLASS + "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    "        kept = self.__dict__.setdefault('kept', {})\n"
    "        handed = kept.setdefault(forward_batch.batch_size, pp_proxy_tensors)\n"
    "        return super().execute(forward_batch, handed)\n",
    check="graphs.replay_equals_eager",
    defect="what the earlier stage hands over is copied in the first step of each bucket alone",
    says="in step 1, of",
)


def stale(name: str, field: str) -> None:
    """A runner that does not copy one input."""
    graph(
        name,
        old=_CLASS,
        new=_with_load(
            f"kept = self.inputs.{field}.clone()\nwhole(batch, bucket)\nself.inputs.{field}.copy_(kept)"
        ),
        check="graphs.every_input_is_copied",
        defect=f"{field} is not copied into the static inputs",
        says="the first step",
    )


stale("StaleTokens", "input_ids")
stale("StaleLengths", "seq_lens")
stale("StaleSlots", "out_cache_loc")

graph(
    "PositionsOfTheFirstReplay",
    old=_CLASS,
    new=_with_load(
        "kept = self.inputs.positions.clone()\nwhole(batch, bucket)\n"
        "if getattr(self, '_replayed', False):\n    self.inputs.positions.copy_(kept)\nself._replayed = True"
    ),
    check="graphs.every_input_is_copied",
    defect="positions are copied at the first replay only",
    says="positions of which all changed",
)
graph(
    "PaddingNotNeutralised",
    old=_CLASS,
    new=_with_load(
        "n = batch.batch_size\nkept = self.inputs.out_cache_loc[n:].clone()\nwhole(batch, bucket)\n"
        "self.inputs.out_cache_loc[n:].copy_(kept)"
    ),
    check="graphs.replay_equals_eager",
    defect="padded rows keep the slots of an earlier batch",
    says="not in the batch",
)
graph(
    "BucketTooSmall",
    old=_CLASS,
    new=_CLASS
    + "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    + "        self.capture_bs = [1, 2, 5, 7]\n"
    + "        self.captured[5] = self.captured[4]\n"
    + "        return super().execute(forward_batch, pp_proxy_tensors)\n",
    check="graphs.replay_equals_eager",
    defect="a batch of five is replayed with the graph of four",
    says="captured size last replayed",
)
graph(
    "PaddedRowsReturned",
    old=_CLASS,
    new=_CLASS + "\n    def _take(self, output: Any, n: int) -> Any:\n        return output\n",
    check="graphs.replay_equals_eager",
    defect="the rows of the padding are returned as well",
    says="execute() answers",
)
graph(
    "LastRowsReturned",
    old=_CLASS,
    new=_CLASS + "\n    def _take(self, output: Any, n: int) -> Any:\n        return output[-n:]\n",
    check="graphs.replay_equals_eager",
    defect="the last rows of a padded batch are returned instead of the first",
    says="differs from the eager model",
)
graph(
    "OutputOfTheCapture",
    old="                into.copy_(now)\n",
    new="                pass\n",
    check="graphs.replay_equals_eager",
    defect="the logits of the capture are returned at every replay",
    says="differs from the eager model",
)
graph(
    "GraphsSharedByRunners",
    old="        return RunAgain(run, output), output\n",
    new="        kept = ReferenceGraphRunner.__dict__.get(f'_graph{len(output)}')\n"
    "        if kept is None:\n"
    "            weights = {n: v for n, v in vars(self.model_runner.model).items() if n != 'load'}\n"
    "            model = type('Frozen', (), {})()\n"
    "            model.__class__ = type(self.model_runner.model)\n"
    "            vars(model).update(weights)\n"
    "            setattr(ReferenceGraphRunner, f'_graph{len(output)}', model)\n"
    "            kept = model\n"
    "        self.model_runner.model = kept\n"
    "        return RunAgain(run, output), output\n",
    check="graphs.replay_equals_eager",
    defect="the model of the first capture is kept on the class, weights and all",
    says="weight",
)
graph(
    "CaptureInLiveSlots",
    old="        with torch.no_grad():\n            output = run()\n",
    new="        self.inputs.out_cache_loc.fill_(self.model_runner.token_to_kv_pool.page_size + 1)\n"
    "        with torch.no_grad():\n            output = run()\n"
    "        self.inputs.out_cache_loc.zero_()\n",
    check="graphs.replay_equals_eager",
    defect="captures run on a slot that a request may hold",
    says="capturing wrote",
)
graph(
    "LargerBatchesTaken",
    old=_CLASS,
    new=_CLASS + "\n    def can_run_graph(self, forward_batch: Any) -> bool:\n        return True\n",
    check="graphs.other_batches_are_left_to_the_model",
    defect="can_run_graph() says yes to any batch",
    says="the largest captured size is",
)
graph(
    "LargestBatchRefused",
    old=_CLASS,
    new=_CLASS
    + "\n    def can_run_graph(self, forward_batch: Any) -> bool:\n"
    + "        return bool(forward_batch.batch_size < self.max_bs)\n",
    check="graphs.replay_equals_eager",
    defect="the largest captured batch is never replayed",
    says="can_run_graph() says no",
)
graph(
    "KeepsEveryOutput",
    old="                into.copy_(now)\n",
    new="                into.copy_(now)\n                self.kept = [*getattr(self, 'kept', []), now]\n",
    check="graphs.graphs_keep_no_memory",
    defect="every replay keeps its output alive",
    says="bytes more after",
)
graph(
    "WeightsOfTheCapture",
    old="        return RunAgain(run, output), output\n",
    new="        frozen = type(self.model_runner.model).__new__(type(self.model_runner.model))\n"
    "        for name, value in vars(self.model_runner.model).items():\n"
    "            if name in ('q', 'k', 'v'):\n                value = [weight.clone() for weight in value]\n"
    "            setattr(frozen, name, value)\n\n"
    "        def replayed():\n"
    "            now, self.model_runner.model = self.model_runner.model, frozen\n"
    "            try:\n                return run()\n"
    "            finally:\n                self.model_runner.model = now\n\n"
    "        return RunAgain(replayed, output), output\n",
    check="graphs.replay_equals_eager",
    defect="the capture keeps a copy of the weights",
    says="after the weights changed in place",
)
graph(
    "SameBatchNotLoaded",
    old=_CLASS,
    new=_with_load(
        "kept = batch.seq_lens\nif len(batch.input_ids) == getattr(self, '_last', 0):\n"
        "    batch.seq_lens = batch.seq_lens.clamp(max=8)\n"
        "self._last = len(batch.input_ids)\nwhole(batch, bucket)\nbatch.seq_lens = kept"
    ),
    check="graphs.replay_equals_eager",
    defect="lengths of a batch of the same size as the last are cut",
    says="at step",
)
graph(
    "PrefillSpoilsTheGraph",
    old=_CLASS,
    new=_CLASS
    + "\n    def can_run_graph(self, forward_batch: Any) -> bool:\n"
    + "        if not forward_batch.forward_mode.is_decode():\n            self._spoiled = True\n"
    + "        return super().can_run_graph(forward_batch)\n"
    + "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    + "        out = super().execute(forward_batch, pp_proxy_tensors)\n"
    + "        return out + 1 if getattr(self, '_spoiled', False) else out\n",
    check="graphs.replay_equals_eager",
    defect="an idle batch leaves something behind that replays read",
    says="tokens and an idle batch",
)
graph(
    "KeysShareAnOutput",
    old="    output = run()\n    return RunAgain(run, output), output\n",
    new="    output = run()\n"
    "    if isinstance(output, torch.Tensor):\n"
    "        _recorded.__dict__.setdefault('shared', output)\n"
    "        output = _recorded.shared[: len(output)]\n"
    "    return RunAgain(run, output), output\n",
    check="graphs.full_graph_backend_replays",
    defect="the graphs of all keys write one output",
    says="once the other keys were replayed",
)

graph(
    "FirstOfTheOutputAlone",
    old="            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n",
    new="            for into, now in zip(_tensors(self.output)[:1], _tensors(self.run()), strict=False):\n",
    check="graphs.full_graph_backend_replays",
    defect="a replay writes the first tensor of its output, the others stay those of the capture",
    says="an output of 8 tensors",
)
graph(
    "Each100thReplayIsSkipped",
    old="            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n",
    new="            self.turns = self.__dict__.get('turns', 0) + 1\n"
    "            each = zip(_tensors(self.output), _tensors(self.run()), strict=True)\n"
    "            for into, now in each if self.turns % 100 else ():\n",
    check="graphs.replay_equals_eager",
    defect="each hundredth replay of a graph leaves its output as it was",
    says="replay 100 of one graph",
)
graph(
    "OutputIsFlattened",
    old="    output = run()\n    return RunAgain(run, output), output\n",
    new="    output = run()\n"
    "    return RunAgain(run, output), _tensors(output) if isinstance(output, tuple) else output\n",
    check="graphs.full_graph_backend_replays",
    defect="a replay answers the tensors of its output in a list, without its nesting",
    says="its replay list",
)

# Whole graphs of the host's own runners

_FULL = '    """Keys and sessions are core\'s."""\n'
_BACKEND = "graphs.full_graph_backend_replays"

graph(
    "KeysBySize",
    old=_FULL,
    new=f"""{_FULL}
    def capture_one(self, shape_key, *args, **kwargs):
        return super().capture_one(shape_key.size, *args, **kwargs)

    def can_run(self, forward_batch, shape_key):
        return super().can_run(forward_batch, shape_key.size)

    def replay(self, shape_key, *args, **kwargs):
        return super().replay(shape_key.size, *args, **kwargs)
""",
    check=_BACKEND,
    defect="graphs are kept by the size of their key alone: an adapter's graph takes the place of the one without",
    says="once the other keys were replayed",
)
graph(
    "HookBeforeWarmUp",
    old=_FULL,
    new=f"""{_FULL}
    def capture_one(self, shape_key, forward_fn, capture_inputs=None, post_warmup_hook=None):
        if post_warmup_hook is not None:
            post_warmup_hook()
        super().capture_one(shape_key, forward_fn, capture_inputs)
""",
    check=_BACKEND,
    defect="the hook that comes after the warm-up is called before it",
    says="post_warmup_hook comes once",
)
graph(
    "BackendsShareGraphs",
    old=_FULL,
    new=f"""{_FULL}
    _all: dict = {{}}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.captured = self._all
""",
    check=_BACKEND,
    defect="all backends of a process share their graphs: the target's runner replays the draft model's",
    says="the replay of",
)
graph(
    "SessionIsNothing",
    old='    """Keys and sessions are core\'s."""\n',
    new='    """Keys and sessions are core\'s."""\n\n    def replay_session(self):\n        return None\n',
    check=_BACKEND,
    defect="replay_session() answers with nothing, and the host enters it",
    says="replay_session() answers",
)

graph(
    "LengthsByTheirSum",
    old=_CLASS,
    new=_with_load(
        "kept = self.inputs.seq_lens.clone()\nwhole(batch, bucket)\n"
        "if getattr(self, '_sum', None) == batch.seq_lens_sum:\n    self.inputs.seq_lens.copy_(kept)\n"
        "self._sum = batch.seq_lens_sum"
    ),
    check="graphs.every_input_is_copied",
    defect="lengths are copied when their sum is another than at the step before",
    says="seq_lens of which rows changed places",
)
graph(
    "SlotsByAddress",
    old=_CLASS,
    new=_with_load(
        "kept = self.inputs.out_cache_loc.clone()\nwhole(batch, bucket)\n"
        "at = batch.out_cache_loc.data_ptr(), batch.batch_size\n"
        "if getattr(self, '_at', None) == at:\n    self.inputs.out_cache_loc.copy_(kept)\nself._at = at"
    ),
    check="graphs.every_input_is_copied",
    defect="slots are copied when their tensor lies elsewhere than at the step before",
    says="out_cache_loc written over in place",
)
graph(
    "LengthsToTheCapturedPlan",
    old=_CLASS,
    new=_with_load("whole(batch, bucket)\nself.inputs.seq_lens.clamp_(max=20000)"),
    check="graphs.replay_equals_eager",
    defect="a replay sees the first 20,000 tokens of a request",
    says="contexts of [49100] tokens",
)
graph(
    "LargestBucketSoFar",
    old=_CLASS,
    new=_CLASS
    + "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    + "        before = self.bs\n"
    + "        output = super().execute(forward_batch, pp_proxy_tensors)\n"
    + "        self.bs = max(before, self.bs)\n"
    + "        return output\n",
    check="graphs.replay_equals_eager",
    defect="bs is the largest bucket that was ever replayed",
    says="captured size last replayed",
)

patch(
    __name__,
    "WindowsOfTheCapture",
    "attention.py",
    "        news = [1] * len(lengths)\n",
    "        news = [1] * len(lengths)\n"
    "        where = forward_batch.seq_lens.data_ptr(), len(lengths)\n"
    "        plans = self.__dict__.setdefault('_plans', {})\n"
    "        plan = plans.setdefault(where, (forward_batch.seq_lens, lengths))[1]\n"
    "        if (layer.sliding_window_size or -1) >= 0:\n"
    "            lengths = plan\n",
    check="graphs.replay_equals_eager",
    defect="where a layer's window lies is planned for the tensor of lengths at its first step, which is the capture's",
    says="one layer with a window",
)

for _name, _defect, _body in (
    (
        "TreesOfTheCapture",
        "the graph keeps the trees that drafts were captured with",
        "tree = self.inputs.tree\nif tree is not None:\n    self.inputs.tree = tree.clone()\n"
        "whole(batch, bucket)\nself.inputs.tree = tree",
    ),
    (
        "TreeOfTheFirstRequest",
        "all requests of a verification get the first one's tree",
        "whole(batch, bucket)\ntree = self.inputs.tree\nif tree is not None:\n    tree[:] = tree[:1].clone()",
    ),
):
    graph(
        _name,
        old=_CLASS,
        new=_with_load(_body),
        check="graphs.replay_equals_eager[row=trees of drafts*]",
        defect=_defect,
        says="each with a tree of its own",
    )
graph(
    "PaddingOfTheLargerBatch",
    old=_CLASS,
    new=_with_load(
        "small = bucket == self.__dict__.get('_last')\n"
        "whole(batch, batch.batch_size if small else bucket)\n"
        "self._last = bucket"
    ),
    check="graphs.replay_equals_eager",
    defect="padded rows are reset when the bucket changes alone: after a batch of 4 one of 3 writes the slot of the "
    "request that left",
    says="slot",
)
