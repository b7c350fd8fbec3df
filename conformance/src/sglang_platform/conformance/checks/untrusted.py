"""Level 1: the plugin's source runs nothing that it reads from a place where others can write."""

from __future__ import annotations

from sglang_platform.conformance.check import NotRun, check, expect
from sglang_platform.conformance.fixtures.untrusted import untrusted_runs
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


@check(
    level=Level.PACKAGING,
    fix="keep what is cached as JSON, safetensors or torch.load(..., weights_only=True): whoever can write the file, or"
    " set the variable, runs code in the server otherwise",
)
def nothing_that_others_write_is_run(subject: Subject) -> None:
    """No pickle, no shelf, no YAML with objects, and no text for `eval` or `exec`, comes from a temporary folder, a
    cache folder or a variable of the environment."""
    if subject.module is None:
        raise NotRun("its module is not known", cause="package")
    told = [
        f"{run.call} at {path}:{run.line} reads {run.place}"
        for _, path in subject.sources
        for run in untrusted_runs(path)
    ]
    expect(not told, "; ".join(told))
