"""Graphs, third set: what a replay finds in the static inputs, which weights it reads, what keys it tells apart."""

from __future__ import annotations

from broken import Table, at, end

graphs = Table("graphs 3", "graphs", "graph_runner.py")

RUNNER = '    """Buckets, padding and static inputs are core\'s."""\n'
FULL = '    """Keys and sessions are core\'s."""\n'
PIECES = '    """Token counts and where tensors lie are core\'s."""\n'
REPLAY = (
    "            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n"
    "                into.copy_(now)\n"
)
RECORD = (
    "    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:\n        with torch.no_grad():\n"
)
RECORDED = "def _recorded(run: Callable[[], Any]) -> tuple[RunAgain, Any]:\n    with torch.no_grad():\n        output = run()\n"
IN_CAPTURE = '        """Nothing to allocate: the batch\'s own tensors are all that is read."""\n'

WEIGHTS = (
    "def _weights(model: Any) -> list[torch.Tensor]:\n"
    "    own = list(getattr(model, 'parameters', list)())\n"
    "    return own or [p for p in vars(model).values() if isinstance(p, torch.Tensor)]\n"
)


def on_prepare(text: str) -> tuple[str, str]:
    """The runner with lines between the loading of a batch and its replay."""
    return RUNNER, (
        f"{RUNNER}\n"
        "    def _prepare(self, forward_batch: Any, *, in_capture: bool) -> None:\n"
        "        inputs = self.inputs\n"
        f"{text}"
        "        super()._prepare(forward_batch, in_capture=in_capture)\n"
    )


def on_execute(text: str, after: str = "") -> tuple[str, str]:
    """The runner with lines before a batch is loaded, which may put another in its place, and after its replay."""
    return RUNNER, (
        f"{RUNNER}\n"
        "    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
        "        import copy\n\n"
        "        batch = copy.copy(forward_batch)\n"
        f"{text}"
        "        answer = super().execute(batch, pp_proxy_tensors)\n"
        f"{after}"
        "        return answer\n"
    )


graphs(
    "PaddedRowsWriteWhereTheLastDid",
    "padded rows keep the slots of the batch before, and write over what lies there",
    *on_execute(
        "",
        "        n = forward_batch.batch_size\n"
        "        kept = self.__dict__.setdefault('_slots', forward_batch.out_cache_loc.new_zeros(self.max_bs))\n"
        "        kept[:n] = forward_batch.out_cache_loc\n"
        "        self._live = n\n",
    )[:1],
    on_execute(
        "        kept = self.__dict__.setdefault('_slots', forward_batch.out_cache_loc.new_zeros(self.max_bs))\n"
        "        kept[: forward_batch.batch_size] = forward_batch.out_cache_loc\n"
    )[1]
    + "\n    def _prepare(self, forward_batch: Any, *, in_capture: bool) -> None:\n"
    "        if not in_capture:\n"
    "            n = forward_batch.batch_size\n"
    "            self.inputs.out_cache_loc[:n].copy_(self._slots[:n])\n"
    "        super()._prepare(forward_batch, in_capture=in_capture)\n",
)
graphs(
    "TokensByAddress",
    "tokens are copied in when their address is another one than at the step before",
    *on_execute(
        "        ids = forward_batch.input_ids\n"
        "        if self.__dict__.get('_at') == (ids.data_ptr(), len(ids)):\n"
        "            batch.input_ids = self._ids\n"
        "        else:\n"
        "            self._at, self._ids = (ids.data_ptr(), len(ids)), ids.clone()\n"
    ),
)
graphs(
    "PositionsOfThreeAxesStay",
    "positions of three axes are not copied in",
    *on_execute("        batch.mrope_positions = None\n"),
)
graphs(
    "LengthsTo16384",
    "a replay sees 16,384 tokens of a request, as many as its capture planned for",
    *on_prepare("        inputs.seq_lens.clamp_(max=16384)\n"),
)
graphs(
    "LengthsTo40960",
    "a replay sees 40,960 tokens of a request, as many as its capture planned for",
    *on_prepare("        inputs.seq_lens.clamp_(max=40960)\n"),
)
graphs(
    "RowsOfTheRequestTableStay",
    "rows of the request table are copied in when the batch has another size, or another first row",
    *on_execute(
        "        rows = forward_batch.req_pool_indices\n"
        "        key = (len(rows), int(rows[0]))\n"
        "        if self.__dict__.get('_key') == key:\n"
        "            batch.req_pool_indices = self._rows\n"
        "        self._key, self._rows = key, batch.req_pool_indices.clone()\n"
    ),
)
graphs(
    "FirstWeightIsFolded",
    "the first weight of the model, its embedding, is copied at capture: later ones are not seen",
    RECORD,
    "    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:\n"
    "        model = self.model_runner.model\n"
    "        mine = _weights(model)[:1]\n"
    "        kept = [p.detach().clone() for p in mine]\n"
    "        plain = run\n\n"
    "        def folded() -> Any:\n"
    "            live = [p.detach().clone() for p in mine]\n"
    "            for p, old in zip(mine, kept, strict=True):\n"
    "                p.data.copy_(old)\n"
    "            try:\n"
    "                return plain()\n"
    "            finally:\n"
    "                for p, new in zip(mine, live, strict=True):\n"
    "                    p.data.copy_(new)\n\n"
    "        run = folded\n"
    "        with torch.no_grad():\n",
    end("graph_runner.py", WEIGHTS),
)
graphs(
    "WeightsOfTheFirstReplay",
    "a bucket keeps the weights of its first replay",
    RECORD,
    "    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:\n"
    "        model, plain, kept = self.model_runner.model, run, []\n"
    "        mine = _weights(model)\n\n"
    "        def folded() -> Any:\n"
    "            live = [p.detach().clone() for p in mine]\n"
    "            if self.captured.get(self.bs) is not None and not kept:\n"
    "                kept.extend(live)\n"
    "            for p, old in zip(mine, kept):\n"
    "                p.data.copy_(old)\n"
    "            try:\n"
    "                return plain()\n"
    "            finally:\n"
    "                for p, new in zip(mine, live, strict=True):\n"
    "                    p.data.copy_(new)\n\n"
    "        run = folded\n"
    "        with torch.no_grad():\n",
    end("graph_runner.py", WEIGHTS),
)
graphs(
    "CaptureWritesIntoSlots",
    "a capture writes into slots 1 and on, which may be lent when it captures again",
    *on_prepare(
        "        if in_capture:\n"
        "            n = forward_batch.batch_size\n"
        "            inputs.out_cache_loc[:n] = torch.arange(1, n + 1)\n"
    ),
)
graphs(
    "KeepsEveryOutput",
    "each replay keeps a copy of its output",
    REPLAY,
    REPLAY + "        self.__dict__.setdefault('_kept', []).append(_tensors(self.output)[0].clone())\n",
)
graphs(
    "SaysYesToOneMore",
    "can_run_graph says yes to a batch of one more than the largest bucket",
    RUNNER,
    RUNNER
    + "\n    def can_run_graph(self, forward_batch: Any) -> bool:\n"
    + "        return bool(self._captures(forward_batch.forward_mode)) and forward_batch.batch_size <= self.max_bs + 1\n",
)
graphs(
    "StageTakesTheFirstTensor",
    "of what an earlier stage hands over only the first tensor is copied in",
    RUNNER,
    RUNNER
    + "\n    def execute(self, forward_batch: Any, pp_proxy_tensors: Any = None) -> Any:\n"
    + "        if pp_proxy_tensors is not None and len(pp_proxy_tensors.tensors) > 1:\n"
    + "            import copy\n\n"
    + "            kept = list(pp_proxy_tensors.tensors.items())\n"
    + "            pp_proxy_tensors = copy.copy(pp_proxy_tensors)\n"
    + "            pp_proxy_tensors.tensors = dict(\n"
    + "                [kept[0], *((name, torch.zeros_like(one)) for name, one in kept[1:])]\n"
    + "            )\n"
    + "        return super().execute(forward_batch, pp_proxy_tensors)\n",
)
graphs(
    "MetadataWhileSizeIsTheSame",
    "attention prepares a step's lengths only when the batch has another size than at the step before, eager or not",
    at(
        "attention.py",
        "    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:\n" + IN_CAPTURE,
        "    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:\n"
        + IN_CAPTURE
        + "\n    def init_forward_metadata_out_graph(self, forward_batch: Any, in_capture: bool = False) -> None:\n"
        "        if in_capture or self.__dict__.get('_size') != forward_batch.batch_size:\n"
        "            self._planned = forward_batch.seq_lens.clone()\n"
        "        self._size = forward_batch.batch_size\n",
    ),
    at(
        "attention.py",
        "        news = [1] * len(lengths)\n",
        "        if len(self.__dict__.get('_planned', ())) == len(lengths):\n"
        "            lengths = self._planned.tolist()\n"
        "        news = [1] * len(lengths)\n",
    ),
    levels="graphs kernels",
)
graphs(
    "EagerStepsMoveThePlan",
    "an eager prefill between two replays leaves its lengths in the plan that the next replay reads",
    at(
        "attention.py",
        "        news = forward_batch.extend_seq_lens.tolist()\n",
        "        news = forward_batch.extend_seq_lens.tolist()\n        self._plan = list(lengths)\n",
    ),
    at(
        "attention.py",
        "        news = [1] * len(lengths)\n",
        "        plan = self.__dict__.pop('_plan', None)\n"
        "        if plan is not None and len(plan) == len(lengths) and min(lengths) > max(plan) + 1:\n"
        "            lengths = plan\n"
        "        news = [1] * len(lengths)\n",
    ),
)
graphs(
    "KeysWithoutVariant",
    "a whole graph is kept by the size in its key: another variant of that size replays it",
    FULL,
    FULL
    + "\n    def capture_one(self, shape_key: Any, *args: Any, **kwargs: Any) -> None:\n"
    + '        super().capture_one(getattr(shape_key, "size", shape_key), *args, **kwargs)\n'
    + "\n    def can_run(self, forward_batch: Any, shape_key: Any) -> bool:\n"
    + '        return super().can_run(forward_batch, getattr(shape_key, "size", shape_key))\n'
    + "\n    def replay(self, shape_key: Any, static_forward_batch: Any, **kwargs: Any) -> Any:\n"
    + '        return super().replay(getattr(shape_key, "size", shape_key), static_forward_batch, **kwargs)\n',
)
graphs(
    "ForgetsNothing",
    "cleanup leaves the graphs: a key of before is replayed after it",
    FULL,
    FULL + "\n    def cleanup(self) -> None:\n        self.captured = dict(self.captured)\n",
)
graphs(
    "PiecesByShape",
    "a piece replays for tensors that lie elsewhere, as long as their shapes are the same",
    PIECES,
    PIECES
    + "\n    def __call__(self, *args: Any) -> Any:\n"
    + "        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0\n"
    + "        kept = self.captured.get(tokens)\n"
    + "        if kept is not None:\n"
    + '            now = tuple(x.data_ptr() if hasattr(x, "data_ptr") else x for x in args)\n'
    + "            self.captured[tokens] = kept._replace(arguments=now)\n"
    + "        return super().__call__(*args)\n",
)
graphs(
    "PiecesReplayTheFirstCount",
    "a piece replays the graph of the smallest count that holds the tokens, whatever the pieces before did",
    PIECES,
    PIECES
    + "\n    def __call__(self, *args: Any) -> Any:\n"
    + "        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0\n"
    + "        held = [n for n in sorted(self.captured) if n > tokens]\n"
    + "        if held and tokens not in self.token_counts:\n"
    + "            graph, output, _ = self.captured[held[0]]\n"
    + "            graph.replay()\n"
    + "            return output[:tokens] if isinstance(output, torch.Tensor) else output\n"
    + "        return super().__call__(*args)\n",
)
