"""One engine on the platform under test, started once and asked by all checks of the host level."""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import Blocked
from sglang_platform.conformance.host import reference, witness
from sglang_platform.conformance.host.asked import NEW_TOKENS, all_prompts
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.subject import Subject

__all__ = ["CHUNK", "STOPPED", "Session", "models_folder", "session"]

CHUNK = 256
"""Tokens of a prompt that are computed at once."""

STOPPED = "it was stopped"
"""The failure of an engine that ran and was told to stop."""

_GRAPH_BATCHES = 4


def models_folder() -> Path:
    """Where checkpoints and references are made and kept: $SGLANG_PLATFORM_TEST_MODELS, or the user's cache."""
    named = os.environ.get("SGLANG_PLATFORM_TEST_MODELS")
    if named:
        return Path(named).resolve()
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache_home) / "sglang-platform" / "models"


class Session:
    """An engine and what it was asked. `start` may fail; then everything else is blocked by the check that says so."""

    def __init__(self, subject: Subject, page_size: int, *, graphs: bool = True) -> None:
        self.subject = subject
        self.page_size = page_size
        self.checkpoint = make_checkpoint(models_folder() / "llama", "llama")
        self.dtype = "float32" if "float32" in subject.declares.kv_dtypes else _default_dtype(subject)
        self._folder = tempfile.TemporaryDirectory(prefix="sglang-platform-witness-")
        self._graphs = graphs and bool(subject.platform.capabilities.graph_capture)
        self.engine: EngineProcess | None = None
        self.failure: str | None = None

    def arguments(self) -> dict[str, Any]:
        """What `sglang.Engine` is given. Nothing of it names a part: the platform has to bring them in."""
        arguments: dict[str, Any] = {
            "model_path": str(self.checkpoint),
            "page_size": self.page_size,
            "dtype": self.dtype,
            "disable_cuda_graph": not self._graphs,
            "chunked_prefill_size": CHUNK,
            "device": self.subject.parts.device_argument,
        }
        if self.subject.parts.device_argument == "cpu":
            # There SGLang asks for a graph runner only under this flag, and sizes the buckets by the other.
            arguments |= {"enable_torch_compile": self._graphs, "torch_compile_max_bs": _GRAPH_BATCHES}
        return arguments

    def start(self) -> EngineProcess:
        """The engine, started on the first call. Raises EngineFailed, the same each time."""
        if self.failure is not None:
            raise EngineFailed(self.failure)
        if self.engine is None:
            self._answer_first()
            site = Path(self._folder.name) / "site"
            try:
                self.engine = EngineProcess(
                    self.subject.name,
                    self.arguments(),
                    environment=witness.install(site),
                    report_dir=Path(self._folder.name) / "report",
                )
            except EngineFailed as error:
                self.failure = str(error)
                raise
        return self.engine

    def _answer_first(self) -> None:
        """Have transformers answer before there is an engine, which polls while it is idle and slows it down."""
        if self.dtype == "float32":
            for prompt in all_prompts():
                reference.greedy(self.checkpoint, [prompt], NEW_TOKENS)

    def running(self) -> EngineProcess:
        """The engine, for every check but the one that is about starting it."""
        for part in ("mha pool", "paged allocator", "attention backend", *["graph runner"] * self._graphs):
            self.subject.stands_on(part)
        try:
            return self.start()
        except EngineFailed:
            raise Blocked("the engine does not start: see host.engine_starts") from None

    @property
    def report_dir(self) -> Path:
        return self.running().report_dir

    @property
    def layers(self) -> int:
        return int(json.loads((self.checkpoint / "config.json").read_text())["num_hidden_layers"])

    def difference(self, prompt: list[int], got: list[int]) -> str | None:
        """How the tokens differ from what transformers gives; None where they are right.

        In float32 they must be equal. In a shorter type rounding may tip the balance between two tokens, so each
        token's own logit, computed in float32, must be within the type's error of the largest.
        """
        if self.dtype == "float32":
            (expected,) = reference.greedy(self.checkpoint, [prompt], len(got))
            first = next((i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b), None)
            if first is None:
                return None
            return f"token {first} is {got[first]}, transformers gives {expected[first]}"
        gaps = reference.gaps(self.checkpoint, prompt, got)
        limit = reference.TOLERANCES[self.dtype]
        worst = max(range(len(gaps)), key=gaps.__getitem__)
        if gaps[worst] <= limit:
            return None
        return (
            f"token {worst} is {got[worst]}, whose logit is {gaps[worst]:.3f} standard deviations below the largest; "
            f"rounding to {self.dtype} explains {limit}"
        )

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
            self.engine = None
        self._folder.cleanup()


def _default_dtype(subject: Subject) -> str:
    return next((name for name in ("bfloat16", "float16") if name in subject.declares.kv_dtypes), "bfloat16")


@cache
def session(subject: Subject) -> Session:
    """The session of this process."""
    sizes = subject.declares.page_sizes
    page_size = 16 if 16 in sizes else max((size for size in sizes if size <= 64), default=1)
    found = Session(subject, page_size)
    atexit.register(found.close)
    return found
