"""LoRA in decode graphs: adapters of unlike rank in the host's products, and where columns go."""

from __future__ import annotations

import pytest
import torch

from sglang_platform.core.sglang.lora import spread


def test_slices_go_to_the_places_of_the_largest_rank() -> None:
    products = torch.tensor([[1.0, 2.0, 9.0, 9.0], [1.0, 2.0, 3.0, 4.0], [9.0, float("nan"), 9.0, 9.0]])
    moved = spread(products, torch.tensor([1, 2, 0], dtype=torch.int32), slices=2)
    assert moved.tolist() == [[1.0, 0.0, 2.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.0] * 4]


@pytest.mark.long
@pytest.mark.host
def test_a_graph_multiplies_as_the_host_does_without(run_program) -> None:
    run_program("multiply_adapters_in_a_graph.py", timeout=600)
