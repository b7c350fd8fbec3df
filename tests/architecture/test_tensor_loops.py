"""No code of a step iterates over a tensor in Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensor_loops import loops_over_tensors

ROOT = Path(__file__).parents[2]
CORE = ROOT / "packages/sglang-platform-core/src/sglang_platform/core"
ROOMS = (
    CORE / "attention",
    CORE / "graph",
    CORE / "memory",
    CORE / "portable/triton",
    CORE / "portable/torch/graph_runner.py",
    CORE / "sglang/attention",
    CORE / "sglang/graphs",
    CORE / "sglang/pools",
    ROOT / "packages/sglang-platform-cuda/src",
    ROOT / "packages/sglang-platform-rocm/src",
)
"""What the attention backend, the allocator, the pools and the graph runner do on the host in a step."""

NO_STEP = {
    "core/attention/diffusion.py": "an image, not a step of tokens",
    "core/memory/host_memory.py": "pages on their way to host memory and back",
}
NOT_IN_A_STEP = {
    ("core/attention/speculative.py", "known.tolist()"): "the contract's field is a list; one call makes it",
    ("core/memory/page_marks.py", "ids.tolist()"): "names the pages of an error",
    ("core/memory/paged.py", "(seq_lens_cpu - prefix_lens_cpu).tolist()"): "the text of an error",
    (
        "core/portable/triton/attention_step.py",
        "max(lengths, default=0)",
    ): "a list: a tensor has its own line above",
}


def test_no_step_iterates_over_a_tensor() -> None:
    files = [file for room in ROOMS for file in (sorted(room.rglob("*.py")) if room.is_dir() else [room])]
    found = [
        (name, text)
        for file in files
        if (name := file.as_posix().partition("/sglang_platform/")[2]) not in NO_STEP
        for _, text in loops_over_tensors(file.read_text(encoding="utf-8"))
    ]
    assert len(files) > 60
    assert [one for one in found if one not in NOT_IN_A_STEP] == []


DEFECTS = (
    "most = int(max(batch.seq_lens_cpu))",
    "lengths = batch.seq_lens_cpu\n    most = max(lengths, default=0)",
    "most = min(batch.extend_seq_lens_cpu)",
    "total = sum(lens)",
    "total = sum(lens.cpu())",
    "if any(batch.extend_prefix_lens_cpu): pass",
    "if all(lens > 0): pass",
    "rows = list(lens)",
    "rows = [int(n) for n in lens]",
    "rows = {n: 1 for n in lens.long()}",
    "for n in lens: pass",
    "for at, n in enumerate(lens): pass",
    "for n, m in zip([1], lens): pass",
    "rows = [*lens]",
    "print(*lens)",
    "first = lens[0].item()",
    "rows = lens.tolist()",
    "made = torch.arange(4)\n    rows = tuple(made)",
    "a, b = lens, 1\n    rows = sorted(a)",
    "rows = list(map(int, lens.numpy()))",
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_loop_over_a_tensor_is_found(defect: str) -> None:
    assert list(loops_over_tensors(f"def step(batch, lens: torch.Tensor | None):\n    {defect}\n"))


@pytest.mark.parametrize(
    "healthy",
    [
        "most = int(batch.seq_lens_cpu.max())",
        "rows, columns = max(lens.shape), tuple(lens.stride())",
        "most = max(lens.numel(), 1)",
        "most = max(int(lens.max()), lens.shape[0])",
        "for layer in range(3): pass",
        "kinds = [torch.device(name) for name in names]",
    ],
)
def test_other_loops_are_not(healthy: str) -> None:
    assert not list(loops_over_tensors(f"def step(batch, names, lens: torch.Tensor):\n    {healthy}\n"))
