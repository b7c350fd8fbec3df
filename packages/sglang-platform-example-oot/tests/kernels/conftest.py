"""Runs each kernel test on both implementations: the compiled operator, and the plain torch function."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from sglang_platform.example_oot.kernels import library

Kernels = Callable[[str], Callable[..., None]]


@pytest.fixture(scope="session", params=["native", "torch"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """`kernels(name)` is the operator `name` of one implementation."""
    if request.param == "torch":
        return library.FALLBACKS.__getitem__
    if library.backend() != "native":
        pytest.skip("there are no C++ kernels; where they cannot be built, the reason is on stderr")
    return library.operator


@pytest.fixture(scope="session", autouse=True)
def _two_threads() -> None:
    """Exercise the sharing of work even where torch would start with one thread."""
    torch.set_num_threads(2)
