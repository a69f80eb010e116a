"""``weft pipeline``: run Spark jobs between the mesh and lake tables, see how they do, and stop them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Json

app = typer.Typer(no_args_is_help=True)

StateDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The directory for records of runs.", show_default="~/.local/state/weft"),
]
RunName = Annotated[str, typer.Argument(metavar="NAME", help="The run's name: the pipeline's, unless it has its own.")]


@app.command()
def run(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="The pipeline; `weft pipeline ls` lists them.")],
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="TOML or YAML (docs/pipelines.md).")],
    master: Annotated[
        str | None, typer.Option(metavar="MASTER", help="Any Spark master.", show_default="local[*]")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The table: its path or address, or catalog.namespace.table (Iceberg)."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a setting of the file; may be given again."),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process all present events, then end.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute", help="Carry out the plan, for jobs that only plan by default.")
    ] = False,
    json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Run a pipeline until it ends or is stopped (Ctrl-C, or `weft pipeline stop`)."""
    from weft.cli.pipeline_work import run_pipeline

    run_pipeline(pipeline, config, master, table, setting or [], available_now, execute, json, state_dir)


@app.command("ls")
@app.command("list", hidden=True)
def list_pipelines(json: Json = False) -> None:
    """List the pipelines, with the files to give to spark-submit."""
    from weft.cli.pipeline_work import show_catalogue

    show_catalogue(json)


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default="all runs")] = None,
    json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show the runs on this machine: whether they are alive, their last batch, and how far behind they are."""
    from weft.cli.pipeline_work import show_status

    show_status(name, json, state_dir)


@app.command()
def stop(
    name: RunName,
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait for its end.")
    ] = 60.0,
    state_dir: StateDir = None,
) -> None:
    """Stop a run. Its checkpoint is kept: the next run continues from there."""
    from weft.cli.pipeline_work import stop_pipeline

    stop_pipeline(name, wait_s, state_dir)
