"""The picture of the host's own CPU platform is made once for a pipeline and the versions that made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_platform.conformance.host import diffusion
from sglang_platform.conformance.host.kept_folder import kept_folder

pytestmark = pytest.mark.host  # it asks for the versions of SGLang and diffusers


def test_it_is_kept_until_a_version_or_the_pipeline_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def generate(platform: str, pipeline: Path, to: Path, *, seed: int = 7) -> None:
        made.append((platform, pipeline))
        to.write_bytes(b"a picture")

    monkeypatch.setattr(diffusion, "generate", generate)
    pipeline = kept_folder(tmp_path / "pipeline", 1, lambda new: None)
    for _ in range(2):
        assert diffusion.reference_picture(pipeline).read_bytes() == b"a picture"
    assert made == [("cpu", pipeline)]
    monkeypatch.setattr(diffusion, "version", lambda name: f"{name} of tomorrow")
    diffusion.reference_picture(pipeline)
    kept_folder(pipeline, 2, lambda new: None)
    diffusion.reference_picture(pipeline)
    assert len(made) == 3


def test_a_failure_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise diffusion.GenerationFailed("no picture was made")

    pipeline = kept_folder(tmp_path / "pipeline", 1, lambda new: None)
    for attempt in (1, 2):
        monkeypatch.setattr(diffusion, "generate", fails)
        with pytest.raises(diffusion.GenerationFailed):
            diffusion.reference_picture(pipeline)
        assert not (tmp_path / "pipeline-picture").exists(), attempt
