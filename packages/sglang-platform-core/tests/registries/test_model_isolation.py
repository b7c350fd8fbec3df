"""Model architectures of plugins: imported on use only, failing alone, kept out when they are switched off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sglang_platform.core.registries import models, register_model
from sglang_platform.core.registries.registry import RegistryError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "isolation_models"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "good.py").write_text("class Good: ...\n")
    (folder / "broken.py").write_text("import a_library_that_is_not_there\nclass Broken: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("isolation_models")]:
        monkeypatch.delitem(sys.modules, name)
    return "isolation_models"


def test_nothing_is_imported_before_its_architecture_is_asked_for(package: str) -> None:
    register_model("GoodForCausalLM", f"{package}.good:Good")
    register_model("BrokenForCausalLM", f"{package}.broken:Broken")
    assert not any(name.startswith(package) for name in sys.modules)
    assert models.load_model("GoodForCausalLM").__name__ == "Good"
    assert f"{package}.broken" not in sys.modules
    assert models.load_model("LlamaForCausalLM") is None


def test_a_broken_one_raises_its_cause_on_use_and_bothers_no_other(package: str) -> None:
    register_model("BrokenForCausalLM", f"{package}.broken:Broken")
    register_model("GoodForCausalLM", f"{package}.good:Good")
    with pytest.raises(
        RegistryError, match="ModuleNotFoundError: No module named 'a_library_that_is_not_there'"
    ) as e:
        models.load_model("BrokenForCausalLM")
    assert isinstance(e.value.__cause__, ModuleNotFoundError)
    assert models.load_model("GoodForCausalLM").__name__ == "Good"
    assert "BrokenForCausalLM" in models.architectures.ids()  # it stays registered


def test_a_switched_off_one_never_reaches_sys_modules(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(models.DISABLED_VARIABLE, "other, good")
    register_model("GoodForCausalLM", f"{package}.good:Good")
    assert models.is_disabled("GoodForCausalLM")
    with pytest.raises(RegistryError, match="switched off"):
        models.load_model("GoodForCausalLM")
    assert not any(name.startswith(package) for name in sys.modules)


def test_a_place_that_is_none_is_refused() -> None:
    for place in ("pkg.mod", "pkg.mod:", ":Class", "pkg.mod:a.b"):
        with pytest.raises(RegistryError, match=r"pkg\.mod:Class"):
            register_model("X", place)


def test_registering_is_light(run_program) -> None:
    assert run_program("register_a_model.py").stdout.strip() == "[]"
