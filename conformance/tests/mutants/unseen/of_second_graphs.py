"""A second set: graphs whose outputs, stages, keys or switches between buckets go wrong."""

from broken import Edit, Table, end

graphs = Table("graphs 2", "graphs", "graph_runner.py")

_BODY = '    """Buckets, padding and static inputs are core\'s."""\n'
_FULL = '    """Keys and sessions are core\'s."""\n'
_PIECES = '    """Token counts and where tensors lie are core\'s."""\n'


def runner(name: str, defect: str, body: str, *edits: Edit) -> None:
    """With `body` in the class of the runner."""
    graphs(name, defect, _BODY, f"{_BODY}\n{body}\n", *edits)


_EXECUTE = "    def execute(self, forward_batch, pp_proxy_tensors=None):\n"
_SUPER = "super().execute(forward_batch, pp_proxy_tensors)"

runner("OutputOneStepLate", "where the bucket changes, the output is read before the replay has written it", _EXECUTE + f"""\
        before, known = self.bs, {{b: _tensors(c.output)[0].clone() for b, c in self.captured.items()}}
        out = {_SUPER}
        if before and before != self.bs:
            _tensors(self.captured[self.bs].output)[0].copy_(known[self.bs])
        return out
""")  # fmt: skip
runner("WorkspaceOfEverySwitch", "each change of the bucket takes a workspace that stays", _EXECUTE + f"""\
        before = self.bs
        out = {_SUPER}
        if before != self.bs:
            self.__dict__.setdefault("_spaces", []).append(torch.zeros(1 << 16))
        return out
""")  # fmt: skip
runner("OffAfterAnotherMode", "after a batch of another mode no graph is replayed any more", """\
    def can_run_graph(self, forward_batch):
        if not forward_batch.forward_mode.is_decode():
            self._off = True
        return not getattr(self, "_off", False) and super().can_run_graph(forward_batch)
""")  # fmt: skip
runner("StageTakesOneTensor", "of what a pipeline stage hands over the first tensor is copied, the residual is not", """\
    def capture(self):
        self.stage.__class__ = Stage
        super().capture()
""", end("graph_runner.py", """\
from sglang_platform.core.graph.stage import StageInputs


class Stage(StageInputs):
    def load(self, received, bucket):
        first = sorted(received)[:1]
        super().load({name: received[name] for name in first}, bucket)
"""))  # fmt: skip
runner("StagePaddingStays", "rows of a later stage behind the batch keep what an earlier batch left, NaN included", """\
    def capture(self):
        self.stage.__class__ = Stage
        super().capture()
""", end("graph_runner.py", """\
from sglang_platform.core.graph.stage import StageInputs


class Stage(StageInputs):
    def load(self, received, bucket):
        for name, tensor in received.items():
            if hasattr(tensor, "data_ptr"):
                self.buffers[name][: len(tensor)].copy_(tensor)
"""))  # fmt: skip
runner("BucketBelow", "a batch as large as no bucket takes the bucket below where only one row is over", """\
    def execute(self, forward_batch, pp_proxy_tensors=None):
        n = forward_batch.batch_size
        if n - 1 in self.captured and n not in self.captured and n > 4:
            one = super().execute(forward_batch, pp_proxy_tensors).clone()
            one[n - 1] = one[n - 2]
            return one
        return super().execute(forward_batch, pp_proxy_tensors)
""")  # fmt: skip
runner("GraphsInAnyOrder", "the graph of a bucket is captured with the metadata of the one before", """\
    def _prepare(self, forward_batch, *, in_capture):
        if not in_capture:
            super()._prepare(forward_batch, in_capture=True)
        else:
            super()._prepare(forward_batch, in_capture=False)
""")  # fmt: skip
runner("InputsAreKept", "every replayed batch is kept, with its tensors", _EXECUTE + f"""\
        self.__dict__.setdefault("_seen", []).append((forward_batch.seq_lens.clone(), forward_batch.out_cache_loc.clone()))
        return {_SUPER}
""")  # fmt: skip
runner("RowsInOrderOfSlots", "rows are sorted by request for the replay, and the output is not put back", _EXECUTE + """\
        import copy

        order = torch.argsort(forward_batch.req_pool_indices)
        batch = copy.copy(forward_batch)
        for name in ("req_pool_indices", "seq_lens", "input_ids", "positions", "out_cache_loc"):
            setattr(batch, name, getattr(forward_batch, name)[order])
        return super().execute(batch, pp_proxy_tensors)
""")  # fmt: skip
runner("CallersBatchIsPadded", "the caller's tensors are replaced by the static ones", _EXECUTE + f"""\
        out = {_SUPER}
        forward_batch.seq_lens = self.inputs.seq_lens[: forward_batch.batch_size]
        return out
""")  # fmt: skip
runner("GradientModeStaysOff", "a replay leaves torch's gradients switched off in the process", _EXECUTE + f"""\
        torch.set_grad_enabled(False)
        return {_SUPER}
""")  # fmt: skip


def full(name: str, defect: str, body: str) -> None:
    """With `body` in the class of the backend for whole graphs."""
    graphs(name, defect, _FULL, f"{_FULL}\n{body}\n")


full("KeysBySize", "graphs are kept by the size of their key alone", """\
    def capture_one(self, shape_key, *args, **kwargs):
        return super().capture_one(getattr(shape_key, "size", shape_key), *args, **kwargs)

    def can_run(self, forward_batch, shape_key):
        return super().can_run(forward_batch, getattr(shape_key, "size", shape_key))

    def replay(self, shape_key, *args, **kwargs):
        return super().replay(getattr(shape_key, "size", shape_key), *args, **kwargs)
""")  # fmt: skip
full(
    "CleanupKeeps",
    "cleanup() leaves the graphs, and their memory, where they are",
    "    def cleanup(self):\n        pass\n",
)
full("AnyKeyCanRun", "can_run() says yes to keys that were not captured",
     "    def can_run(self, forward_batch, shape_key):\n        return True\n")  # fmt: skip
full("HookBeforeWarmUp", "the hook after the warm-up is called before it", """\
    def capture_one(self, shape_key, forward_fn, capture_inputs=None, post_warmup_hook=None):
        if post_warmup_hook is not None:
            post_warmup_hook()
        super().capture_one(shape_key, forward_fn, capture_inputs)
""")  # fmt: skip
full(
    "SessionsAreNoContext",
    "replay_session() answers with nothing",
    "    def replay_session(self):\n        return None\n",
)
full("BackendsShareGraphs", "all backends of a process share their graphs, and a draft model replays another's", """\
    _all = {}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.captured = self._all
""")  # fmt: skip

graphs("PieceOfMovedTensors", "a piece is replayed though its tensors lie elsewhere than at its capture", _PIECES, _PIECES + """
    def __call__(self, *args):
        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0
        if tokens in self.captured:
            self.captured[tokens].graph.replay()
            return self.captured[tokens].output
        return super().__call__(*args)
""")  # fmt: skip
graphs("PieceOfTheNextCount", "a token count that was not captured is replayed with the next one's graph, unpadded", _PIECES, _PIECES + """
    def __call__(self, *args):
        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0
        larger = sorted(count for count in self.captured if count > tokens)
        if tokens not in self.token_counts and larger:
            self.captured[larger[0]].graph.replay()
            return self.captured[larger[0]].output
        return super().__call__(*args)
""")  # fmt: skip
