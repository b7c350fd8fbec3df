"""Graph runners that go wrong after some sequence of batches, for some sizes, or leave something behind."""

from broken import Table, at, end

graphs = Table("graphs", "graphs", "graph_runner.py")

_BODY = '    """Buckets, padding and static inputs are core\'s."""\n'
_COPY = (
    "            for into, now in zip(_tensors(self.output), _tensors(self.run()), strict=True):\n"
    "                into.copy_(now)\n"
)
_RUNNERS_RECORD = "    def record(self, run: Callable[[], Any]) -> tuple[RunAgain, Any]:\n        with"


def runner(name: str, defect: str, body: str, *edits: object, healthy: bool = False) -> None:
    """With `body` in the class of the runner."""
    graphs(name, defect, _BODY, f"{_BODY}\n{body}\n", *edits, healthy=healthy)  # type: ignore[arg-type]


def inputs(name: str, defect: str, body: str) -> None:
    """With `body` in the class of its static inputs."""
    runner(
        name,
        defect,
        "    def capture(self):\n        self.inputs.__class__ = Inputs\n        super().capture()\n",
        end(
            "graph_runner.py",
            "from sglang_platform.core.graph.runner import DecodeInputs\n\n\n"
            f"class Inputs(DecodeInputs):\n{body}",
        ),  # fmt: skip
    )


_LOAD = "    def load(self, forward_batch, bucket):\n"
_SUPER = "        super().load(forward_batch, bucket)\n"

inputs("LengthsOnlyRise", "lengths of a row are copied where they are larger than before", _LOAD + """\
        before = self.seq_lens.clone()
        super().load(forward_batch, bucket)
        n = forward_batch.batch_size
        if before[:n].min() > 1:
            self.seq_lens[:n] = torch.maximum(before[:n], self.seq_lens[:n])
""")  # fmt: skip
inputs("SameSizeIsSameBatch", "a batch of the size of the one before is not copied", _LOAD + """\
        if getattr(self, "_size", None) != forward_batch.batch_size:
            super().load(forward_batch, bucket)
        self._size = forward_batch.batch_size
""")  # fmt: skip
inputs("RowsStayPerBucket", "the request rows of a bucket are copied once", _LOAD + """\
        kept = self.__dict__.setdefault("_rows", {}).get(forward_batch.batch_size)
        super().load(forward_batch, bucket)
        if kept is not None:
            self.req_pool_indices[: len(kept)] = kept
        self._rows[forward_batch.batch_size] = self.req_pool_indices[: forward_batch.batch_size].clone()
""")  # fmt: skip
inputs("PaddedLocationsStay", "padded rows keep the slots of an earlier larger batch, and write there", _LOAD + """\
        before = self.out_cache_loc.clone()
        super().load(forward_batch, bucket)
        self.out_cache_loc[forward_batch.batch_size : bucket] = before[forward_batch.batch_size : bucket]
""")  # fmt: skip
inputs("PaddedLocationsRepeat", "padded rows take the slot of the last live row, and overwrite its key", _LOAD + _SUPER + """\
        n = forward_batch.batch_size
        self.out_cache_loc[n:bucket] = self.out_cache_loc[n - 1]
""")  # fmt: skip
inputs("PositionsOfLongBatches", "positions are copied for the first 8 rows", _LOAD + """\
        before = self.positions.clone()
        super().load(forward_batch, bucket)
        self.positions[8:bucket] = before[8:bucket]
""")  # fmt: skip
inputs("PositionsOf16Bits", "positions pass through 16 bits", _LOAD + _SUPER + """\
        self.positions.copy_(self.positions.to(torch.int16))
""")  # fmt: skip
inputs("MropeStays", "positions of 3 dimensions (Qwen2-VL) are not copied", _LOAD + """\
        before = self.mrope_positions.clone()
        super().load(forward_batch, bucket)
        self.mrope_positions.copy_(before)
""")  # fmt: skip
inputs("LoadChangesBatch", "the caller's lengths are raised to those of the bucket", _LOAD + _SUPER + """\
        forward_batch.seq_lens.clamp_(min=2)
""")  # fmt: skip
inputs("IdsAreWrapped", "token ids pass through 16 bits", _LOAD + _SUPER + """\
        self.input_ids.copy_(self.input_ids & 0xFFFF)
""")  # fmt: skip
for _most in (512, 4096):
    inputs(f"GraphContextOver{_most}", f"a graph reads {_most} tokens of a request", _LOAD + _SUPER + f"""\
        self.seq_lens.clamp_(max={_most})
""")  # fmt: skip
inputs("BucketOver8Wraps", "of a bucket above 8 the others read the rows of the first", _LOAD + _SUPER + """\
        if bucket > 8:
            self.req_pool_indices[8:bucket] = self.req_pool_indices[: bucket - 8].clone()
""")  # fmt: skip
inputs("BucketOver64Wraps", "of a bucket above 64 the others read the rows of the first", _LOAD + _SUPER + """\
        if bucket > 64:
            self.req_pool_indices[64:bucket] = self.req_pool_indices[: bucket - 64].clone()
""")  # fmt: skip

runner("BatchIsRenamed", "execute sets the batch's size to that of the bucket", """\
    def execute(self, forward_batch, pp_proxy_tensors=None):
        output = super().execute(forward_batch, pp_proxy_tensors)
        forward_batch.batch_size = self.bs
        return output
""")  # fmt: skip
runner("PaddedRowsReturned", "the rows of the bucket are returned", """\
    def _take(self, output, n):
        return output
""")  # fmt: skip
runner("ExtendsTaken", "can_run_graph does not look at the mode", """\
    def can_run_graph(self, forward_batch):
        return forward_batch.batch_size <= self.max_bs
""")  # fmt: skip
runner("IdleTaken", "can_run_graph takes an idle batch", """\
    def can_run_graph(self, forward_batch):
        return forward_batch.forward_mode.is_idle() or super().can_run_graph(forward_batch)
""")  # fmt: skip
runner("VerifyTaken", "can_run_graph takes a batch that verifies drafts, though decodes were captured", """\
    def can_run_graph(self, forward_batch):
        return forward_batch.forward_mode.is_target_verify() or super().can_run_graph(forward_batch)
""")  # fmt: skip
runner("LargerTaken", "can_run_graph takes one more row than the largest bucket holds", """\
    def can_run_graph(self, forward_batch):
        return super().can_run_graph(forward_batch) or forward_batch.batch_size == self.max_bs + 1
""")  # fmt: skip
runner("CanRunIsNoBool", "can_run_graph answers with a tensor", """\
    def can_run_graph(self, forward_batch):
        return torch.tensor([super().can_run_graph(forward_batch)] * 2)
""")  # fmt: skip
runner("NothingIsCaptured", "can_run_graph is always False: nothing is ever replayed", """\
    def can_run_graph(self, forward_batch):
        return False
""")  # fmt: skip
runner("WeightsCopied", "the capture copies the weights: an update in place is not seen", """\
    def capture(self):
        import copy

        self._copy = copy.deepcopy(self.model_runner.model)
        super().capture()

    def _run_model(self, forward_batch):
        model, self.model_runner.model = self.model_runner.model, self._copy
        try:
            return super()._run_model(forward_batch)
        finally:
            self.model_runner.model = model
""")  # fmt: skip
runner("CaptureOfOld", "a second runner of a process takes the graphs of the first", """\
    def capture(self):
        super().capture()
        self.captured = _FIRST.setdefault(tuple(self.capture_bs), self.captured)
""", end("graph_runner.py", "_FIRST: dict = {}"))  # fmt: skip
runner("MetadataOnlyAtCapture", "the backend's metadata is made at capture: an eager batch between replays changes it", """\
    def _prepare(self, forward_batch, *, in_capture):
        if in_capture:
            super()._prepare(forward_batch, in_capture=True)
""", at("attention.py", '        """Nothing to allocate: the batch\'s own tensors are all that is read."""\n', '''\
        """Nothing."""

    def init_forward_metadata_out_graph(self, forward_batch, in_capture=False):
        self._rows = forward_batch.req_pool_indices
'''), at("attention.py", "batch.req_pool_indices.tolist()", "self._rows.tolist()"))  # fmt: skip
runner("CaptureWritesSlotOne", "a capture stores into slot 1, which may be lent when it is made again", """\
    def capture(self):
        self.inputs.clear()
        super().capture()

    def record(self, run):
        self.inputs.out_cache_loc.fill_(1)
        with torch.no_grad():
            output = run()
        self.inputs.out_cache_loc.zero_()
        return RunAgain(run, output), output

    def _unused(self):
        pass
""", _RUNNERS_RECORD, "    def _record(self, run):\n        with")  # fmt: skip
runner("StageIgnored", "what the pipeline stage before hands over is not looked at", """\
    def execute(self, forward_batch, pp_proxy_tensors=None):
        return super().execute(forward_batch)
""")  # fmt: skip
runner("OldRunnersKept", "every runner of a process is kept, with its buffers", """\
    def capture(self):
        super().capture()
        _ALL.append(self)
""", end("graph_runner.py", "_ALL: list = []"))  # fmt: skip
runner("SlowCapture", "each bucket takes 3 seconds to capture", """\
    def _static_batch(self, bucket):
        import time

        time.sleep(3)
        return super()._static_batch(bucket)
""")  # fmt: skip
runner("BsStays", "bs is the largest bucket, not the one last replayed", """\
    def execute(self, forward_batch, pp_proxy_tensors=None):
        output = super().execute(forward_batch, pp_proxy_tensors)
        self.bs = self.max_bs
        return output
""")  # fmt: skip

graphs("ReplayInBfloat16", "replayed logits are rounded to bfloat16", _COPY,
       _COPY.replace("copy_(now)", "copy_(now.bfloat16())"))  # fmt: skip
graphs("ReplaysKept", "the logits of every replay are kept", _COPY,
       _COPY + "            self.__dict__.setdefault('_kept', []).append(_tensors(self.output)[0].clone())\n")  # fmt: skip
graphs(
    "ReplaySlow",
    "a replay waits for 100 ms",
    _COPY,
    "            import time\n\n            time.sleep(0.1)\n" + _COPY,
)
graphs("OutputOfCapture", "a bucket's first replay returns the logits of the capture", _COPY,
       "            again = self.__dict__.get('_again')\n            self._again = True\n            if not again:\n"
       "                return\n" + _COPY)  # fmt: skip
graphs("RowsOfFirstReplay", "only rows that the first replay had are written", _COPY, """\
            fresh = _tensors(self.run())[0]
            old = _tensors(self.output)[0]
            old[: max(1, len(old) - 1)].copy_(fresh[: max(1, len(old) - 1)])
""")  # fmt: skip
graphs("GradientsRecorded", "the model is replayed with gradients, whose graph is kept", "        with torch.no_grad():\n"
       "            for into", "        with torch.enable_grad():\n            for into")  # fmt: skip
graphs("SeedChanged", "a replay seeds torch's random numbers, so all steps sample alike", _COPY,
       _COPY + "            torch.manual_seed(0)\n")  # fmt: skip
