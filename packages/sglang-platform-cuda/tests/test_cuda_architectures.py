"""The records of the architectures: found by file name, whole, and a stranger is served and told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sglang_platform.core.contract.attention_features import ATTENTION_FEATURES
from sglang_platform.core.portable.triton.architecture import for_architecture
from sglang_platform.cuda.kernels import tuning
from sglang_platform.cuda.kernels.declared import KERNELS
from sglang_platform.cuda.kernels.tuning import ARCHITECTURES, FALLBACK
from sglang_platform.cuda.platform import CudaSRTPlatform

SUPPORTED = tuple(ARCHITECTURES)


def test_every_file_is_an_architecture() -> None:
    files = {path.stem for path in Path(tuning.__file__).parent.glob("*.py")} - {"__init__"}
    assert list(ARCHITECTURES) == sorted(files, key=lambda name: (len(name), name))
    assert FALLBACK in ARCHITECTURES
    promised = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"}
    assert promised <= set(ARCHITECTURES), "a record of a supported architecture is gone"


def test_the_fallback_asks_for_the_least() -> None:
    fallback = ARCHITECTURES[FALLBACK]
    assert fallback.shared == min(record.shared for record in ARCHITECTURES.values())
    assert fallback.converts_fp8 == ()


@pytest.mark.parametrize(("name", "by"), [("sm_87", "sm_86"), ("sm_110", "sm_100"), ("sm_121", "sm_120")])
def test_a_neighbour_stands_in_and_is_told_once(name: str, by: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            assert ARCHITECTURES.serving(name) is ARCHITECTURES[by]
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert name in record.message
    assert by in record.message


def test_a_stranger_is_served_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert ARCHITECTURES.serving("sm_130") is ARCHITECTURES["sm_86"]
    (message,) = caplog.messages
    assert "sm_130" in message
    assert "sm_86" in message


@pytest.mark.parametrize("name", SUPPORTED)
def test_cpu_tensors_stand_for_what_is_pretended(name: str) -> None:
    with for_architecture(ARCHITECTURES[name]):
        assert ARCHITECTURES.of(torch.device("cpu")) is ARCHITECTURES[name]


def test_every_kernel_is_declared_for_every_architecture() -> None:
    assert len({declared.name for declared in KERNELS}) == len(KERNELS)
    for declared in KERNELS:
        assert tuple(target.name for target in declared.targets) == SUPPORTED


def test_the_attention_features_are_words_of_the_contract() -> None:
    assert CudaSRTPlatform.attention_features <= ATTENTION_FEATURES
    assert {"cross_attention", "encoder"}.isdisjoint(CudaSRTPlatform.attention_features)


def test_the_platform_and_its_declarations_import_neither_torch_nor_triton(
    run_program: Callable[..., Any],
) -> None:
    done = run_program("declare_cuda.py")
    assert done.stdout.strip() == "set()"
