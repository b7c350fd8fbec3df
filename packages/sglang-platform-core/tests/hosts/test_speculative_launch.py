"""Speculative decoding is refused before launch, in words, wherever it would end a server later."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sglang_platform.core.errors import LaunchRefused
from sglang_platform.core.sglang.speculative.launch import check_algorithm, check_arguments
from sglang_platform.core.sglang.versions import NEWEST, facts_for

_ARGUMENTS = {
    "speculative_accept_threshold_single": 1.0,
    "speculative_accept_threshold_acc": 1.0,
    "speculative_use_rejection_sampling": False,
    "speculative_use_block_verification": False,
    "enable_multi_layer_eagle": False,
}


def _platform(*declared: str) -> SimpleNamespace:
    return SimpleNamespace(
        device_name="a_device", supports_speculative_algorithm=lambda name: name in declared
    )


@pytest.mark.parametrize("algorithm", ["NGRAM", "EAGLE", "NEXTN"])
def test_what_is_declared_is_admitted(algorithm: str) -> None:
    check_algorithm(_platform("NGRAM", "EAGLE"), facts_for(NEWEST), algorithm)
    check_arguments(_platform("NGRAM", "EAGLE"), SimpleNamespace(**_ARGUMENTS))


def test_what_is_not_declared_is_refused_with_what_is() -> None:
    with pytest.raises(LaunchRefused) as refused:
        check_algorithm(_platform("NGRAM", "EAGLE"), facts_for(NEWEST), "STANDALONE")
    assert "STANDALONE is not served on the platform 'a_device'" in str(refused.value)
    assert "it declares NGRAM, EAGLE" in str(refused.value)
    assert "leave out --speculative-algorithm" in str(refused.value)


def test_a_release_whose_kernels_cannot_be_replaced_is_named() -> None:
    with pytest.raises(LaunchRefused, match=r"on SGLang 0\.5\.18"):
        check_algorithm(_platform("NGRAM"), facts_for("0.5.18"), "NGRAM")


@pytest.mark.parametrize("argument", sorted(_ARGUMENTS))
def test_arguments_that_need_a_kernel_are_refused(argument: str) -> None:
    changed = 0.5 if isinstance(_ARGUMENTS[argument], float) else True
    with pytest.raises(LaunchRefused, match="--" + argument.replace("_", "-")):
        check_arguments(_platform("EAGLE"), SimpleNamespace(**{**_ARGUMENTS, argument: changed}))
