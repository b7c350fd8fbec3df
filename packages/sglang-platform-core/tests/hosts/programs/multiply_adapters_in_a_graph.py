"""The host's LoRA products as a decode graph computes them, for adapters of unlike rank, against those without one."""

from types import SimpleNamespace

import torch

from sglang_platform.core import HookRegistry
from sglang_platform.core.sglang import lora
from sglang_platform.core.sglang.versions import facts

lora.register_hooks(
    SimpleNamespace(is_out_of_tree=lambda: True, is_pin_memory_available=lambda: True), facts()
)
HookRegistry.apply_hooks()
from sglang.srt.lora.backend import torch_backend  # noqa: E402 -- after the hooks

MOST, INPUTS, OFFSETS = 8, 24, torch.tensor([0, 10, 16, 22])
RANKS, SCALINGS = torch.tensor([0, 3, 8, 1]), torch.tensor([0.0, 2.0, 0.5, 1.5])
generator = torch.Generator().manual_seed(0)


def random(*shape):
    return torch.randn(shape, generator=generator)


def products(adapters, info, slices):
    offsets = OFFSETS[: slices + 1]
    a, b = A[:, : slices * MOST], B[:, : int(offsets[-1])]
    middle = torch_backend.sgemm_lora_a_fwd(x[: len(adapters)], a, info, slices)
    return torch_backend.sgemm_lora_b_fwd(
        middle, b, info, offsets, base[: len(adapters), : int(offsets[-1])].clone()
    )


# What an adapter before left behind the rank of the present one is still there.
A, B = random(len(RANKS), 3 * MOST, INPUTS), random(len(RANKS), int(OFFSETS[-1]), MOST)
x, base = random(6, INPUTS), random(6, int(OFFSETS[-1]))
for slices in (1, 2, 3):
    for adapters in ([1], [2], [0, 0], [3, 1, 2, 0, 2, 1]):
        rows = torch.tensor(adapters, dtype=torch.int32)
        each = torch.ones(len(adapters), dtype=torch.int32)
        plain = SimpleNamespace(
            use_cuda_graph=False,
            weight_indices_cpu=rows,
            seg_lens_cpu=each,
            lora_ranks_cpu=RANKS,
            scalings_cpu=SCALINGS,
        )
        padded = torch.cat([rows, torch.full((4,), 3, dtype=torch.int32)])  # of an earlier, larger batch
        graph = SimpleNamespace(
            use_cuda_graph=True, weight_indices=padded, seg_lens=each, lora_ranks=RANKS, scalings=SCALINGS
        )
        wanted, got = products(adapters, plain, slices), products(adapters, graph, slices)
        torch.testing.assert_close(got, wanted)
