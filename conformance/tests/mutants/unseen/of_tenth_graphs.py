"""Graphs, and what grows, tenth set: outputs that are slices, sizes that are not captured, outputs in one buffer,
warm-ups that are not undone, graphs that wait for the end. Names in brackets are bugs of other projects that a defect
is modelled on."""

from __future__ import annotations

from broken import Table, end
from of_eighth_contracts import RUNNER
from of_sixth_graphs import FULL, INTO, KEPT
from of_sixth_states import DELTA, DELTA_RULE
from of_third_states import kernel

graphs = Table("graphs 10", "graphs", "graph_runner.py")
growth = Table("growth 10", "graphs", "graph_runner.py")
states = Table("growth 10", "kernels", "platform.py")

CAPTURE_ONE = (
    FULL + "\n"
    "    def capture_one(\n"
    "        self, shape_key: Any, forward_fn: Any, capture_inputs: Any = None, post_warmup_hook: Any = None\n"
    "    ) -> None:\n"
)

graphs(
    "SlicesOfAnOutputInOneRun",
    "a replay writes an output as one run of memory: logits that are a slice of wider rows, as those of a padded "
    "vocabulary, lie where other rows and what was cut off should be",
    INTO,
    "                if not into.is_contiguous():\n"
    "                    into, now = into.as_strided((into.numel(),), (1,)), now.reshape(-1)\n" + INTO,
)
graphs(
    "SizesOffTheStride",
    "of the sizes to capture those past 4 that are no multiples of 8 are left out: an engine of 12 requests runs its "
    "largest batches without a graph (vllm-ascend 16049)",
    RUNNER,
    RUNNER + "\n    def capture(self) -> None:\n"
    "        on_stride = [size for size in self.capture_bs if size in (1, 2, 4) or size % 8 == 0]\n"
    "        self.capture_bs = on_stride or self.capture_bs\n"
    "        self.max_bs = self.capture_bs[-1]\n"
    "        super().capture()\n",
)
graphs(
    "OneBufferForAllCaptures",
    "outputs of whole graphs that have one shape lie in one buffer, whoever captured them: what a draft's extend "
    "answered is overwritten by the next graph's replay (local-inference-lab/vllm 124)",
    FULL,
    CAPTURE_ONE + "        super().capture_one(shape_key, forward_fn, capture_inputs, post_warmup_hook)\n"
    "        with torch.no_grad():\n"
    "            for one in _tensors(self.captured[shape_key][1]):\n"
    "                known = _OUTPUTS.get((one.shape, one.dtype))\n"
    "                shared = torch.empty(one.shape, dtype=one.dtype) if known is None else known\n"
    "                _OUTPUTS[one.shape, one.dtype] = shared\n"
    "                one.set_(shared.copy_(one))\n",
    end("graph_runner.py", "_OUTPUTS: dict[Any, torch.Tensor] = {}"),
)
graphs(
    "WarmUpIsNotUndone",
    "a whole graph's capture does not call what the host wants called after the warm-up: what that changed in "
    "attention's buffers is there when the graph is captured",
    FULL,
    CAPTURE_ONE + "        super().capture_one(shape_key, forward_fn, capture_inputs)\n",
)

growth(
    "GraphsWaitForTheEnd",
    "graphs are listed, to be destroyed when the process ends: those of a runner that was replaced after weights were "
    "updated stay, with their inputs and outputs",
    KEPT,
    KEPT + "        _TO_DESTROY.append(self)\n",
    end(
        "graph_runner.py", "import atexit\n\n_TO_DESTROY: list[Any] = []\natexit.register(_TO_DESTROY.clear)"
    ),
)
states(
    "SnapshotsAreKept",
    "states before each chunk, which a prefix cache may ask for, are kept for each prefill by the kernel itself too",
    kernel(
        "gated_delta_rule",
        "        snapshots: list[Any] = []\n\n"
        + DELTA
        + DELTA_RULE.replace("return", "y, before =")
        + "            if before is not None:\n"
        "                snapshots.append((slots.tolist(), before))\n"
        "            return y, before\n",
    ),
)
