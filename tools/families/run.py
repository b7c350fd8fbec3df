"""One family in one engine: its tokens beside those of transformers, the parts that were in use, the calls of ops."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sglang_platform.conformance.host import reference, vision_checkpoint, witness
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from tools.families.record import VISION, Point

__all__ = ["Report", "run"]

_LENGTHS = (1, 17, 90, 300)
"""Shorter and longer than the windows (64 tokens); the longest is computed in three pieces."""

_BATCHES = ([0], [1], [2], [3], [0, 1, 2, 3], [1, 2, 3])
"""Each alone, all together, and three, which a graph for four pads; those asked before come from the prefix cache."""

_NEW_TOKENS = 16
_SERVED_BY_SGLANG = ("host.attention.calls", "host.kv_pool.stores")


@dataclass
class Report:
    """What one engine showed."""

    platform: str
    architecture: str
    page_size: int
    graphs: bool
    releases: dict[str, str] = field(default_factory=dict)
    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    """Answers that differ from transformers', in words, or why there was none."""

    parts: dict[str, str | None] = field(default_factory=dict)
    """Class by part."""

    ops: dict[str, list[int]] = field(default_factory=dict)
    """By class of op: the calls that the platform's forward served, and those that SGLang's own did."""

    graph_replays: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(point: Point, *, platform: str, models: Path) -> Report:
    """Serve it. A launch that is refused, or an engine that dies, is told in the report as well."""
    report = Report(platform, point.family.architecture, point.page_size, point.graphs)
    report.releases = {name: version(name) for name in ("sglang", "transformers", "torch")}
    picture = point.family.architecture == VISION
    ask = _ask_with_pictures if picture else _ask
    checkpoint = (vision_checkpoint.make_vision_checkpoint if picture else make_checkpoint)(
        models / point.family.architecture, *([] if picture else [point.family.architecture])
    )
    wanted = _wanted(checkpoint, picture)
    with tempfile.TemporaryDirectory(prefix="sglang-platform-families-") as folder:
        arguments = {
            "model_path": str(checkpoint),
            "page_size": point.page_size,
            "disable_cuda_graph": not point.graphs,
            "cuda_graph_bs_decode": [1, 4],
            "chunked_prefill_size": 128,
            "max_total_tokens": 4096,
            **({"enable_multimodal": True} if picture else {}),
        }
        environment = witness.install(Path(folder) / "site")
        try:
            with EngineProcess(
                platform, arguments, environment=environment, report_dir=Path(folder) / "report"
            ) as engine:
                ask(engine, checkpoint, wanted, report)
                counts = engine.counters()
                (report.parts,) = witness.parts_in_use(engine.report_dir)
        except EngineFailed as failed:
            report.wrong.append(str(failed).splitlines()[-1])
            return report
    report.wrong += [f"{name} is {counts[name]}" for name in _SERVED_BY_SGLANG if counts.get(name)]
    report.graph_replays = counts.get(f"{platform}.graph.replays", 0)
    report.ops = _ops(counts, platform)
    return report


def _wanted(checkpoint: Path, picture: bool) -> list[list[int]]:
    """Before there is an engine, which polls while it is idle and slows transformers down."""
    if picture:
        pictures = vision_checkpoint.make_pictures(checkpoint)
        return [vision_checkpoint.answer(checkpoint, one, _NEW_TOKENS) for one in pictures]
    return reference.greedy(checkpoint, reference.prompts(_LENGTHS), _NEW_TOKENS)


def _ask(engine: EngineProcess, checkpoint: Path, wanted: list[list[int]], report: Report) -> None:
    prompts = reference.prompts(_LENGTHS)
    for batch in _BATCHES:
        replies = engine.call("generate", input_ids=[prompts[i] for i in batch], max_new_tokens=_NEW_TOKENS)
        for i, reply in zip(batch, replies, strict=True):
            what = f"a prompt of {len(prompts[i])} tokens in a batch of {len(batch)}"
            _compare(report, what, reply["output_ids"], wanted[i])


def _ask_with_pictures(
    engine: EngineProcess, checkpoint: Path, wanted: list[list[int]], report: Report
) -> None:
    pictures = vision_checkpoint.make_pictures(checkpoint)
    for batch in (*([index] for index in range(len(pictures))), list(range(len(pictures)))):
        replies = engine.call(
            "generate_with_pictures",
            prompts=[vision_checkpoint.PROMPT] * len(batch),
            pictures=[str(pictures[i]) for i in batch],
            max_new_tokens=_NEW_TOKENS,
        )
        for i, tokens in zip(batch, replies, strict=True):
            _compare(report, f"picture {i} in a batch of {len(batch)}", tokens, wanted[i])


def _compare(report: Report, what: str, got: list[int], wanted: list[int]) -> None:
    report.answers += 1
    if got != wanted:
        report.wrong.append(f"{what}: {got}, and transformers gives {wanted}")


def _ops(counts: dict[str, int], platform: str) -> dict[str, list[int]]:
    """By class name: the platform's calls as it counts them, SGLang's as the witness does."""
    found: dict[str, list[int]] = {}
    for place, prefix in enumerate((f"{platform}.fused_ops.", witness.HOSTS_OPS)):
        for name, count in counts.items():
            if name.startswith(prefix) and count and name != f"{platform}.fused_ops.calls":
                found.setdefault(name.removeprefix(prefix), [0, 0])[place] = count
    return dict(sorted(found.items()))
