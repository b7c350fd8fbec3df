"""Serve every family and write the page: `python -m tools.families`.

Each engine's report is kept in a file, and the page is written from the files: families named run alone, and the rest
of the page stays. Where a report of the rest is missing, all of it does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools.families.page import page
from tools.families.record import FAMILIES, points
from tools.families.run import run

app = typer.Typer(add_completion=False)


@app.command()
def main(
    architectures: Annotated[
        list[str] | None, typer.Argument(help="Of which architectures; by default of all.")
    ] = None,
    platform: Annotated[str, typer.Option(help="The platform plugin to serve on.")] = "example_oot",
    models: Annotated[Path, typer.Option(help="Where checkpoints are made and kept.")] = Path("models"),
    reports: Annotated[Path, typer.Option(help="Where the reports go.")] = Path("reports/families"),
    output: Annotated[Path | None, typer.Option(help="The page to write, as Markdown.")] = None,
) -> None:
    """Serve each family at each of its points, compare the tokens with transformers', and write the page."""
    console = Console()
    known = [family.architecture for family in FAMILIES]
    unknown = set(architectures or ()) - set(known)
    if unknown:
        raise typer.BadParameter(f"no family has {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    reports.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for point in points():
        if architectures and point.family.architecture not in architectures:
            continue
        report = run(point, platform=platform, models=models.resolve())
        (reports / f"{point.name}.json").write_text(json.dumps(report.as_dict(), indent=1))
        wrong += bool(report.wrong)
        console.print(
            f"{point.name}: {'; '.join(report.wrong) or f'{report.answers} answers equal'}", highlight=False
        )
    if output is not None and (missing := write(output, reports)):
        console.print(f"{output} stays as it is, there is no report of {', '.join(missing)}", highlight=False)
    raise typer.Exit(1 if wrong else 0)


def write(output: Path, reports: Path) -> list[str]:
    """The page, from the reports of all engines; else nothing, and the engines of which there is no report."""
    files = {point.name: reports / f"{point.name}.json" for point in points()}
    missing = [name for name, file in files.items() if not file.is_file()]
    if not missing:
        output.write_text(page([json.loads(file.read_text()) for file in files.values()]), encoding="utf-8")
    return missing


if __name__ == "__main__":
    app()
