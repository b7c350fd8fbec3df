"""The token-equality matrix from the command line: every configuration, or a pairwise subset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sglang_platform.conformance.host.equality import (
    Configuration,
    EqualityResult,
    all_configurations,
    pairwise_configurations,
    run,
)

app = typer.Typer(add_completion=False)


@app.command()
def main(
    pairwise: Annotated[
        bool, typer.Option(help="Only enough configurations to cover each pair of values.")
    ] = False,
    platform: Annotated[str, typer.Option(help="The platform plugin to serve on.")] = "example_oot",
    models: Annotated[Path, typer.Option(help="Where checkpoints are made and kept.")] = Path("models"),
    report: Annotated[Path, typer.Option(help="Where the JSON report goes.")] = Path("reports/equality.json"),
) -> None:
    """Serve each configuration and compare greedy tokens with transformers in float32."""
    console = Console()
    chosen = pairwise_configurations() if pairwise else all_configurations()
    outcomes = []
    for number, configuration in enumerate(chosen, 1):
        with console.status(f"[{number}/{len(chosen)}] {configuration}"):
            outcome = run(configuration, platform=platform, folder=models)
        verdict = "[red]different[/]" if outcome.failures else "[green]equal[/]"
        console.print(
            f"[{number}/{len(chosen)}] {configuration}: {verdict}, {outcome.seconds:.0f} s", highlight=False
        )
        for failure in outcome.failures:
            console.print(f"    {failure}", style="red", highlight=False)
        outcomes.append(outcome)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(json.dumps([_as_json(outcome) for outcome in outcomes], indent=1))
    console.print(_table(outcomes))
    failed = sum(bool(outcome.failures) for outcome in outcomes)
    console.print(f"{len(outcomes) - failed} of {len(outcomes)} configurations equal; report in {report}")
    raise typer.Exit(1 if failed else 0)


def _as_json(outcome: EqualityResult) -> dict[str, object]:
    configuration: Configuration = outcome.configuration
    return {
        "architecture": configuration.architecture,
        "page_size": configuration.page_size,
        "graph_runner": configuration.graph_runner,
        "chunked_prefill": configuration.chunked_prefill,
        "failures": outcome.failures,
        "prefill_batches_of_longest_prompt": outcome.chunks,
        "cached_tokens": outcome.cached_tokens,
        "counters": outcome.counters,
        "seconds": round(outcome.seconds, 1),
    }


def _table(outcomes: list[EqualityResult]) -> Table:
    table = Table(
        "model",
        "page",
        "graphs",
        "chunks",
        "cached",
        "stores",
        "extends",
        "decodes",
        "replays",
        "tokens",
        box=None,
    )
    for outcome in outcomes:
        configuration = outcome.configuration
        counts = {name.split(".", 1)[1]: count for name, count in outcome.counters.items()}
        shown = ("kv_pool.stores", "attention.extends", "attention.decodes", "graph.replays")
        table.add_row(
            configuration.architecture,
            str(configuration.page_size),
            "on" if configuration.graph_runner else "off",
            str(outcome.chunks),
            str(outcome.cached_tokens),
            *(str(counts.get(name, 0)) for name in shown),
            "different" if outcome.failures else "equal",
        )
    return table


if __name__ == "__main__":
    app()
