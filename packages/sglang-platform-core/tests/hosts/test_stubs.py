"""Stub modules: for what is missing or does not load, never over what works, gone when the platform is not chosen."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sglang_platform.core.portable.parts import HostIfImportable
from sglang_platform.core.sglang.device import stubs


@pytest.fixture(autouse=True)
def _no_stubs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(
        stubs,
        "facts",
        lambda: SimpleNamespace(
            imports_everywhere=frozenset({"host_needs.this"}), imports_on_cuda=frozenset({"flashinfer"})
        ),
    )
    switches = ("SGLANG_IS_FLASHINFER_AVAILABLE", "SGLANG_ENABLE_JIT_DEEPGEMM")
    for switch in switches:
        monkeypatch.delenv(switch, raising=False)
    stubs.withdraw()
    yield
    for switch in switches:
        os.environ.pop(switch, None)
    stubs.withdraw()


def platform(modules: dict[str, Any], identity: str = "") -> Any:
    return SimpleNamespace(
        stub_modules=lambda: modules,
        is_out_of_tree=lambda: not identity,
        is_cuda=lambda: identity == "cuda",
        is_rocm=lambda: identity == "rocm",
    )


def test_a_missing_module_and_its_parents_are_stood_in_for() -> None:
    special = types.ModuleType("absent_one.kernels")
    special.fast = lambda: "slow"  # type: ignore[attr-defined]
    stubs.install(platform({"absent_one.kernels": special, "absent_two": None}))
    import absent_one.kernels
    import absent_two

    assert absent_one.kernels.fast() == "slow"
    assert not [name for name in vars(absent_two) if not name.startswith("__")]
    assert stubs.served() == ("absent_one", "absent_one.kernels", "absent_two")
    with pytest.raises(ImportError):
        import absent_two.other


def test_what_the_host_imports_everywhere_can_be_imported_and_says_so_when_it_is_called() -> None:
    stubs.install(platform({}))
    from host_needs.this import some_kernel

    with pytest.raises(NotImplementedError, match=r"host_needs\.this\.some_kernel\(\) was called"):
        some_kernel()


def test_the_hosts_compiled_libraries_are_stood_in_for_where_they_are_missing() -> None:
    stubs.install(platform({}, "rocm"))
    import sgl_kernel
    import torch
    from aiter import gemm_a4w4
    from sgl_kernel.utils import is_arch_support_pdl

    assert sgl_kernel.silu_and_mul(torch.ones(2, 4)).shape == (2, 2), "torch serves it"
    assert is_arch_support_pdl() is False
    with pytest.raises(NotImplementedError, match="aiter is not installed or does not load"):
        gemm_a4w4()
    with pytest.raises(ImportError):  # SGLang takes kernels of its own
        from sgl_kernel import sgl_per_token_group_quant_8bit  # noqa: F401
    with pytest.raises(ImportError):
        import sgl_kernel.allreduce
    assert [stubs.is_absent(name) for name in ("sgl_kernel", "aiter", "torch")] == [True, True, False]
    assert HostIfImportable(("sgl_kernel", "aiter")).choose().own, "a stub is no library"


def test_cuda_has_no_stub_of_another_devices_library() -> None:
    stubs.install(platform({}, "cuda"))
    with pytest.raises(ImportError):
        import aiter  # noqa: F401
    assert stubs.is_absent("aiter")
    assert os.environ["SGLANG_IS_FLASHINFER_AVAILABLE"] == "false", (
        "SGLang would take the stub for FlashInfer"
    )


def test_a_library_that_does_not_load_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sgl_kernel").mkdir()
    (tmp_path / "sgl_kernel" / "__init__.py").write_text("raise ImportError('undefined symbol: torch')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    rule = HostIfImportable(("sgl_kernel",))
    assert not rule.choose().own
    stubs.install(platform({}, "cuda"))
    assert stubs.is_absent("sgl_kernel")
    assert rule.choose().own


def test_a_real_module_is_left_alone_and_a_broken_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real_lib.py").write_text("answer = 42\n")
    broken = tmp_path / "broken_lib"
    broken.mkdir()
    (broken / "__init__.py").write_text("from broken_lib import part\nimport a_driver_that_is_not_there\n")
    (broken / "part.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    stubs.install(platform({"real_lib": None, "broken_lib": None}))
    import broken_lib
    import real_lib

    assert real_lib.answer == 42
    assert not hasattr(broken_lib, "part")
    assert "broken_lib.part" not in sys.modules
    assert stubs.served() == ("broken_lib",)
    del sys.modules["real_lib"]


def test_withdrawn_stubs_leave_nothing_behind() -> None:
    stubs.install(platform({"absent_three": None}))
    import absent_three

    before = len(sys.meta_path)
    stubs.withdraw()
    assert len(sys.meta_path) == before - 1
    assert "absent_three" not in sys.modules
    with pytest.raises(ImportError):
        import absent_three  # noqa: F401


def test_installing_twice_is_once() -> None:
    before = len(sys.meta_path)
    stubs.install(platform({"absent_four": None}))
    stubs.install(platform({"absent_four": None}))
    assert len(sys.meta_path) == before + 1
