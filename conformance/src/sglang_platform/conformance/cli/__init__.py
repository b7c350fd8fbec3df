"""`sglang-platform conformance`: run the checks, list them, compare reports, make the hardware table.

run      the checks on a platform: what the command does without a subcommand
listing  `conformance list`     comparing  `conformance compare`     table  `conformance table`
features `conformance features`        kits `conformance kits`           verifying `conformance verify`
sitting  from the first check to a report       progress what is shown while checks run
summary  what is shown at the end                merging  `conformance merge`
pages    `conformance pages`

Every `sglang-platform` command imports these modules. What a command needs is therefore imported when it runs: together
it is 106 modules, a third of a second on a busy machine.
"""

from __future__ import annotations

import typer

from sglang_platform.conformance.cli.comparing import compare
from sglang_platform.conformance.cli.listing import list_checks
from sglang_platform.conformance.cli.merging import merge
from sglang_platform.conformance.cli.pages import pages
from sglang_platform.conformance.cli.run import run
from sglang_platform.conformance.cli.table import features, kits, table
from sglang_platform.conformance.cli.verifying import verify
from sglang_platform.core.cli.extensions import HELP

__all__ = ["app"]

app = typer.Typer(
    name="conformance",
    help="Check a platform plugin: packaging, contract, memory, kernels, graphs, processes, SGLang, ranks, features.",
    add_completion=False,
    context_settings=HELP,
    pretty_exceptions_enable=False,
)
app.callback(invoke_without_command=True)(run)
app.command("list")(list_checks)
app.command("compare")(compare)
app.command("merge")(merge)
app.command("table")(table)
app.command("verify")(verify)
app.command("features")(features)
app.command("kits")(kits)
app.command("pages")(pages)
