"""The launches that the suite has for its kernel families."""

from __future__ import annotations

import pkgutil
from dataclasses import replace

import pytest
import torch

from sglang_platform.conformance.kernels import checks
from sglang_platform.conformance.kernels.served import FAMILIES, FAMILIES_WITH_FP8, launches_of
from sglang_platform.core.contract.kernels import KernelDeclaration, KernelTarget

TARGET = KernelTarget(name="one", backend="none", arch=1, warp=32, shared=0, processors=1)
DECLARED = KernelDeclaration(name="norm", entry="math:sqrt", check="rms_norm", limits={}, targets=())


def test_every_family_is_one_that_the_suite_checks() -> None:
    assert not set(FAMILIES) & set(FAMILIES_WITH_FP8)
    assert {*FAMILIES, *FAMILIES_WITH_FP8} <= {file.name for file in pkgutil.iter_modules(checks.__path__)}


@pytest.mark.parametrize("family", [*FAMILIES, *FAMILIES_WITH_FP8])
def test_a_family_has_launches(family: str) -> None:
    launches = launches_of(replace(DECLARED, check=family, fp8_formats=("float8_e5m2",)), TARGET)
    assert launches
    assert all(callable(run) for run in launches.values())


def test_a_declarations_own_launches_go_first() -> None:
    assert launches_of(replace(DECLARED, launches="builtins:dict"), TARGET) == {}


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="declare `launches`"):
        launches_of(replace(DECLARED, check="vendor:cases"), TARGET)
    with pytest.raises(ValueError, match="`fp8_formats`"):
        launches_of(replace(DECLARED, check="decode"), TARGET)


@pytest.mark.parametrize(
    ("e4m3", "stored"), [("float8_e4m3fn", "float8_e4m3fn"), ("float8_e4m3fnuz", "float8_e5m2")]
)
def test_a_cache_has_the_format_of_the_target(
    e4m3: str, stored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declaration's first where it does not know the target's."""
    seen: list[torch.dtype] = []
    monkeypatch.setitem(FAMILIES_WITH_FP8, "kv_store", lambda entry, eight_bit: seen.append(eight_bit) or {})
    declared = replace(DECLARED, check="kv_store", fp8_formats=("float8_e5m2", "float8_e4m3fn"))
    launches_of(declared, replace(TARGET, e4m3=e4m3))
    assert seen == [getattr(torch, stored)]
