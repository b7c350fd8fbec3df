"""SGLang's own model registry with plugins' architectures: on use, off when switched off, with causes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.host, pytest.mark.timeout(400)]


@pytest.mark.long
def test_architectures_are_isolated_from_each_other(tmp_path: Path, monkeypatch, run_program) -> None:
    for package, modules in {
        "plugin_models": {
            "good": "class Good: ...",
            "broken": "import a_driver_that_is_not_there\nclass Broken: ...",
            "switched_off": "class Off: ...",
        },
        # With a package of its own the host leaves its hundreds of models unimported.
        "external_models": {"one": "class External: ...\nEntryClass = External"},
    }.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        for name, source in modules.items():
            (tmp_path / package / f"{name}.py").write_text(source + "\n")
    monkeypatch.delenv("SGLANG_PLATFORM", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("SGLANG_EXTERNAL_MODEL_PACKAGE", "external_models")
    monkeypatch.setenv("SGLANG_DISABLED_MODEL_ARCHS", "switched_off")
    assert "isolated" in run_program("resolve_isolated_models.py", timeout=380).stdout
