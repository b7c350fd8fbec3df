"""What the proof of a feature is given: the running engine of its launch, and what transformers answers."""

from __future__ import annotations

import atexit
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.host.features.launch import EngineLaunch, RefusedBeforeLaunch
from sglang_platform.conformance.host.session import models_folder
from sglang_platform.conformance.subject import Subject

__all__ = ["Running", "running", "start", "words_of_refusal"]

_COMMON: dict[str, Any] = {"page_size": 16, "max_total_tokens": 8192, "chunked_prefill_size": 256}
_LAUNCH_REFUSED = re.compile(
    r"^([^\n]+)\n(?:  plugin: [^\n]+\n)?  why: +([^\n]+(?:\n {10}[^\n]+)*)\n  fix: [^\n]+(?:\n {10}[^\n]+)*\Z",
    re.M,
)
"""What `core.errors.LaunchRefused` prints as the last words of a process."""

_REFUSALS = ("LaunchRefused", "ValueError", "AssertionError", "NotImplementedError", "RuntimeError")


class Running:
    """One feature's view of the platform in a running SGLang."""

    def __init__(self, subject: Subject, launch: EngineLaunch | None) -> None:
        self.subject, self.launch = subject, launch
        self.models = models_folder()
        self.arguments: dict[str, Any] = {}
        self._engine: EngineProcess | None = None

    @property
    def checkpoint(self) -> Path:
        """The model's folder, made at the first use."""
        if not self.arguments and self.launch is not None:
            self._prepare(self.launch)
        return Path(self.arguments["model_path"])

    @property
    def engine(self) -> EngineProcess:
        """The engine of the launch, started at the first use.

        Raises RefusedBeforeLaunch where it is refused in words, EngineFailed where it dies.
        """
        if self._engine is None:
            assert self.launch is not None, "this feature starts its processes itself"
            if not self.arguments:
                self._prepare(self.launch)
            self._engine = start(self.subject, self.arguments, dict(self.launch.environment))
        return self._engine

    def ask(self, prompts: Sequence[list[int]], new_tokens: int = 24, **sampling: Any) -> list[list[int]]:
        """The tokens that the engine gives, all prompts at once; `sampling` is SGLang's sampling parameters."""
        replies = self.engine.call("generate", input_ids=list(prompts), max_new_tokens=new_tokens, **sampling)
        return [reply["output_ids"] for reply in replies]

    def expected(self, prompts: Sequence[list[int]], new_tokens: int = 24) -> list[list[int]]:
        """What transformers gives for them in float32."""
        return reference.greedy(self.checkpoint, prompts, new_tokens)

    def gives_the_tokens(
        self,
        prompts: Sequence[list[int]],
        new_tokens: int,
        *,
        wanted: Sequence[list[int]] | None = None,
        batches: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Raise CheckFailed where a batch gives other tokens than transformers, or than `wanted`.

        `batches` are indices into `prompts`: by default each prompt alone, then all together.
        """
        wanted = self.expected(prompts, new_tokens) if wanted is None else wanted
        everyone = range(len(prompts))
        for batch in batches or [*([index] for index in everyone), everyone]:
            got = self.ask([prompts[index] for index in batch], new_tokens)
            for index, tokens in zip(batch, got, strict=True):
                expect(
                    tokens == wanted[index],
                    f"a prompt of {len(prompts[index])} tokens in a batch of {len(batch)} gives {tokens}, and "
                    f"transformers gives {wanted[index]}",
                )

    def is_served_by(self, workers: int) -> None:
        """Raise CheckFailed where another number of scheduler processes serves."""
        found = self.engine.counters()["host.process.scheduler"]
        expect(found == workers, f"{found} workers served, not {workers}")

    def hosts_own_parts(self) -> dict[str, int]:
        """Work that SGLang's own parts did in the schedulers where the platform brings its own: calls by part."""
        if self._engine is None:
            return {}
        counts, brought = self._engine.counters(), self.subject.parts
        asked = {
            "host.attention.calls": brought.attention_factory() is not None,
            "host.kv_pool.stores": bool(self.subject.declares.kv_kinds),
        }
        return {name: counts.get(name, 0) for name, own in asked.items() if own and counts.get(name, 0)}

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _prepare(self, launch: EngineLaunch) -> None:
        arguments = {**_COMMON, **launch.arguments}
        if launch.prepare is not None:
            arguments |= launch.prepare(self.models)
        if "model_path" not in arguments:
            arguments["model_path"] = str(
                make_checkpoint(self.models / launch.architecture, launch.architecture)
            )
        graphs = launch.graphs and bool(self.subject.platform.capabilities.graph_capture)
        arguments.setdefault("disable_cuda_graph", not graphs)
        self.arguments = arguments


def start(
    subject: Subject, arguments: dict[str, Any], environment: dict[str, str] | None = None
) -> EngineProcess:
    """An engine on the platform. Raises RefusedBeforeLaunch or EngineFailed."""
    device = subject.parts.device_argument
    wanted = {**arguments, "device": device}
    if device == "cpu":
        # There SGLang asks for a graph runner only under this flag, and sizes the buckets by the other.
        wanted |= {"enable_torch_compile": not arguments["disable_cuda_graph"], "torch_compile_max_bs": 4}
    try:
        return EngineProcess(subject.name, wanted, environment=environment)
    except EngineFailed as failed:
        words = words_of_refusal(str(failed))
        if words is None:
            raise
        raise RefusedBeforeLaunch(words) from failed


def words_of_refusal(output: str) -> str | None:
    """The refusal in an engine's last lines; None where it died of something else.

    A refusal is what the launcher ended with before it started a worker: an exception with words, or core's
    LaunchRefused, which ends the process without a traceback. In a worker it is raised by that name.
    """
    if re.search(r"(TP|DP|PP|EP)\d|Scheduler hit an exception|Received sigquit|scheduler died", output):
        found = re.findall(r"LaunchRefused: (.+)", output)
        return found[-1] if found else None
    said = "\n".join(line for line in output.splitlines() if "kill_process_tree called" not in line).rstrip()
    refused = _LAUNCH_REFUSED.search(said)
    if refused is not None:
        what, why = refused.groups()
        return f"{what}: {' '.join(why.split())}"
    last = [line for line in output.splitlines() if re.match(rf"(\w+\.)*({'|'.join(_REFUSALS)}): ", line)]
    return last[-1].partition(": ")[2] if last else None


_current: Running | None = None


def running(subject: Subject, launch: EngineLaunch | None) -> Running:
    """The view for a feature; the engine of another launch is stopped first: the machine holds one at a time."""
    global _current
    if _current is not None and launch is not None and _current.launch == launch:
        return _current
    if _current is not None:
        _current.close()
    else:
        atexit.register(lambda: _current.close() if _current is not None else None)
    _current = Running(subject, launch)
    return _current
