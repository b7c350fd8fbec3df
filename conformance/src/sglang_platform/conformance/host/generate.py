"""The main job from the command line: SGLang serves a model through a platform, and the platform proves it did."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from safetensors import SafetensorError

from sglang_platform.conformance.host import processes, served_parts, step_profile, witness
from sglang_platform.conformance.host.architectures import ARCHITECTURES
from sglang_platform.conformance.host.before_start import (
    refuse_damaged_checkpoint,
    refuse_odd_prompts,
    refuse_unreadable_metadata,
)
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.demo_model import FOLDER as DEMO
from sglang_platform.conformance.host.engine import EngineFailed, EngineProcess
from sglang_platform.conformance.host.word_wrap import WordWrap
from sglang_platform.core.cli import ends_quietly
from sglang_platform.core.cli.page import Page
from sglang_platform.core.contract.completeness import incomplete
from sglang_platform.core.discovery.named import platform_named
from sglang_platform.core.discovery.resolve import resolve
from sglang_platform.core.errors import ConfigurationError, PlatformError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
console = Page()
errors = Console(highlight=False, soft_wrap=True, stderr=True)

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DTYPES = ("float32", "bfloat16", "float16", "auto")

_PROMPTS = [
    "What is a KV cache?",
    "What does a paged allocator do?",
    "Tell me a story about a fox.",
]


@app.command()
def main(
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; may be given several times.")] = None,
    model_path: Annotated[
        Path | None, typer.Option(help="A Hugging Face checkpoint folder; default: the demo model.")
    ] = None,
    architecture: Annotated[
        str | None,
        typer.Option(help=f"Make a checkpoint with random weights instead: {', '.join(ARCHITECTURES)}."),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens per answer, at most.")] = 128,
    page_size: Annotated[int, typer.Option(min=1, help="Token slots per page of the KV cache.")] = 16,
    dtype: Annotated[
        str, typer.Option(help="Weights and activations: float32, bfloat16, float16 or auto.")
    ] = "float32",
    graphs: Annotated[bool, typer.Option(help="Decode through the platform's graph runner.")] = True,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Time the parts of a step, without graphs; name what to replace next."
        ),
    ] = False,
    platform: Annotated[str, typer.Option(help="The platform plugin to serve on.")] = "example_oot",
    models: Annotated[Path, typer.Option(help="Where a checkpoint is made and kept.")] = Path("models"),
) -> None:
    """Start SGLang on a platform plugin, answer prompts, and show which parts did the work.

    A part that the platform leaves to SGLang is right; one that it declares and that did not serve is WRONG.

    Exit status 1: it cannot be done, or a declared part did not serve. 2: an option that cannot be. 128 and a
    signal's number: ended by it.
    """
    if dtype not in _DTYPES:
        raise typer.BadParameter(f"unknown dtype {dtype!r}; there are {', '.join(_DTYPES)}")
    with _signals_end():
        try:
            proved = _generate(
                prompt or _PROMPTS,
                model_path,
                architecture,
                max_new_tokens,
                page_size,
                dtype,
                graphs and not profile,
                profile,
                platform,
                models,
            )
        except (EngineFailed, PlatformError) as error:
            errors.print(str(error), style="red", markup=False)
            raise typer.Exit(1) from None
        except _Ended as ended:
            errors.print(f"ended by {ended.signal.name}; nothing of SGLang runs on", style="red")
            raise typer.Exit(128 + ended.signal) from None
    raise typer.Exit(0 if proved else 1)


class _Ended(KeyboardInterrupt):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


@contextmanager
def _signals_end() -> Iterator[None]:
    """A signal that asks to end ends what was started, and a second one does not disturb that."""

    def end(number: int, frame: FrameType | None) -> None:
        for one in _ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise _Ended(number)

    before = {one: signal.signal(one, end) for one in _ENDING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _generate(
    prompts: list[str],
    model_path: Path | None,
    architecture: str | None,
    max_new_tokens: int,
    page_size: int,
    dtype: str,
    graphs: bool,
    profile: bool,
    platform: str,
    models: Path,
) -> bool:
    platform = platform_named(platform)
    refuse_odd_prompts(prompts)
    refuse_unreadable_metadata()
    _refuse_early(platform)
    checkpoint = _checkpoint(model_path, architecture, models)
    arguments = {
        "model_path": str(checkpoint),
        "page_size": page_size,
        "dtype": dtype,
        "disable_cuda_graph": not graphs,
        "torch_compile_max_bs": 4,
    }
    console.print("[2/4] starting SGLang: 15 to 60 s of imports; the first time also builds kernels")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="sglang-platform-witness-") as site:
        environment = witness.install(Path(site), "load_and_profile" if profile else "load_and_describe")
        with console.status("[2/4] starting SGLang") as status:

            def show(line: str) -> None:
                if (message := line.split("] ", 1)[-1].strip()) and not console.is_terminal:
                    return
                status.update(f"[2/4] starting SGLang ({time.perf_counter() - start:.0f} s): {message[:90]}")

            engine = EngineProcess(platform, arguments, environment=environment, on_line=show)
        with engine:
            console.print(f"[2/4] SGLang is up after {time.perf_counter() - start:.0f} s")
            console.print("[3/4] answering")
            if profile:  # what happens once, such as the build of a kernel, is no part of a step
                engine.call("stream_text", prompt=prompts[0], max_new_tokens=2)
            before = engine.counters()
            _show_answers(engine, prompts, max_new_tokens)
            counts = engine.counters()
            reports = processes.read(engine.report_dir)
            (description, *_) = witness.served(engine.report_dir)
    console.print("[4/4] who did the work, counted in the scheduler process")
    _show_decision(reports)
    rows = served_parts.judge(description, counts, platform, graphs=graphs)
    proved = _show_proof(platform, rows)
    if profile:
        _show_profile(step_profile.shares(rows, before, counts))
    return proved


def _refuse_early(platform: str) -> None:
    """Ask the plugin here, before minutes are spent: the same rules hold in SGLang's processes."""
    os.environ["SGLANG_PLATFORM"] = platform
    origin, cls, _ = resolve()
    error = None if cls is None else incomplete(cls, cls(), origin)
    if error is not None:
        raise error


def _show_decision(reports: list[dict[str, Any]]) -> None:
    """The decision of the main process, and that every process came to the same."""
    if not reports:
        raise ConfigurationError(
            "no process of SGLang reported its platform",
            why="the hooks of sglang-platform-core were not in force: its entry points are not found",
            fix="install sglang-platform-core again; sglang-platform doctor says more",
        )
    console.print(f"  {reports[0]['platform']['explained'][-1]}")
    classes = sorted({report["platform"]["class"] for report in reports})
    agree = "agree" if len(classes) == 1 else f"do not agree: {', '.join(classes)}"
    console.print(f"  {len(reports)} processes of SGLang {agree}")


def _checkpoint(model_path: Path | None, architecture: str | None, models: Path) -> Path:
    if model_path is not None:
        refuse_damaged_checkpoint(model_path, "give --model-path a folder with a whole checkpoint")
        console.print(f"[1/4] model: {model_path}")
        return model_path
    if architecture is None:
        console.print("[1/4] model: the demo model, a million parameters, trained on text of our own")
        return DEMO
    if architecture not in ARCHITECTURES:
        raise typer.BadParameter(
            f"unknown architecture {architecture!r}; there are {', '.join(ARCHITECTURES)}"
        )
    folder = models / architecture
    try:
        with console.status(f"[1/4] making a small {architecture} checkpoint"):
            checkpoint = make_checkpoint(folder, architecture)
    except (OSError, SafetensorError) as error:
        raise ConfigurationError(
            f"the checkpoint cannot be made in {folder}",
            why=str(error),
            fix="name a folder with 20 MB to write: --models",
        ) from None
    refuse_damaged_checkpoint(checkpoint, f"remove {checkpoint}: it is made anew")
    console.print(
        f"[1/4] model: {checkpoint}, a small {architecture} with random weights: fluent in nothing, but real"
    )
    return checkpoint


def _show_answers(engine: EngineProcess, prompts: list[str], max_new_tokens: int) -> None:
    """Ask the prompts one after the other, and print each answer while it comes."""
    total, seconds = 0, 0.0
    for prompt in prompts:
        console.print(f"  > {prompt}", style="bold")
        lines = WordWrap(console.file, width=min(console.width, 88), indent="    ")
        reply = engine.call("stream_text", on_part=lines.write, prompt=prompt, max_new_tokens=max_new_tokens)
        lines.end()
        total, seconds = total + len(reply["output_ids"]), seconds + reply["seconds"]
    console.print(
        f"  {total} tokens in {seconds:.2f} s, {total / seconds:.1f} tokens/s, one request at a time",
        style="dim",
    )


def _show_proof(platform: str, rows: list[served_parts.ServedPart]) -> bool:
    cells = []
    for row in rows:
        right = Text("WRONG", style="red") if row.wrong else Text("ok", style="green")
        calls = "-" if row.calls is None else str(row.calls)
        cells.append([row.part, row.server, row.name, calls, right])
    console.table(["part", "served by", "", "calls", ""], cells)
    for row in rows:
        if row.wrong:
            console.print(f"  WRONG: {row.part}: {row.wrong}", style="red")
    text = served_parts.verdict(rows, platform)
    proved = not any(row.wrong for row in rows)
    console.print(text, style="green" if proved else "red")
    return proved


def _show_profile(found: list[step_profile.Share]) -> None:
    """Where the time went, and the next step."""
    console.print("where the time of a step goes, each part waited for, graphs off")
    shown = [row for row in found if row.share >= 0.005]
    console.table(
        ["part", "served by", "share"], [[row.part, row.server, f"{row.share:.0%}"] for row in shown]
    )
    console.print(step_profile.next_step(found))


def _run() -> None:
    """The command, where what it prints may have no reader or no room."""
    try:
        with ends_quietly():
            app()
    except OSError as error:
        with contextlib.suppress(OSError):
            errors.print(f"the output cannot be written: {error.strerror}", style="red")
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - what is left to write is not tried again
        sys.exit(1)


if __name__ == "__main__":
    _run()
