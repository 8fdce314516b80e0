"""``fastsbl bench``: our fits beside those of other packages, in one run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fastsbl.cli._console import Session, subcommand
from fastsbl.cli._output import check_place, output_options, writing_file

__all__ = ["command"]


@subcommand(
    "bench",
    examples=(
        "fastsbl bench --quick",
        "fastsbl bench --quick --only lasso/mnist --only costs",
        "fastsbl bench --out all.json   # everything: about an hour",
        "fastsbl bench --out all.json --only lasso/psf --add",
    ),
)
@click.option("--quick", is_flag=True, help="Small data, one goal, few repeats: under three minutes.")
@click.option("--only", multiple=True, metavar="PART", help="A task, a data set, or both (lasso/mnist); repeatable.")
@click.option("--add", is_flag=True, help="Add to the results in --out; what is measured again is replaced.")
@output_options("bench.json", "Results, with a .md of the tables beside them,")
def command(session: Session, quick: bool, only: tuple[str, ...], add: bool, out: Path, force: bool) -> None:
    """Time our solvers and those of other installed packages on the same problems, judged from outside.

    Each solver is tuned to the loosest of its own tolerances that reaches the goal, then all are timed in turn.
    Packages that are not installed are named with the pip line that brings them.
    """
    tables = out.with_suffix(".md")
    force = force or add
    for place in (out, tables):
        check_place(place, force=force)
    if out == tables:
        raise click.UsageError(f"--out must not end in .md, which is the name of the tables; got {out.name}")
    from fastsbl.bench import BenchReport, run_benchmark

    earlier = BenchReport()
    if add and out.exists():
        try:
            earlier = BenchReport.from_json(out.read_text(encoding="utf-8"))
        except (ValueError, KeyError, TypeError) as error:
            raise click.ClickException(f"--add needs results of an earlier run in {out}, got something else") from error
    with session.progress("bench") as advance:
        report = earlier.merged(run_benchmark(quick=quick, only=only or None, progress=advance))
    with writing_file(out, force=force) as temporary:
        temporary.write_text(report.to_json() + "\n", encoding="utf-8")
    with writing_file(tables, force=force) as temporary:
        temporary.write_text(report.to_markdown(), encoding="utf-8")
    session.say(report.to_markdown())
    session.say(f"wrote {out} and {tables}")
    session.finish({"results": str(out), "tables": str(tables), **json.loads(report.to_json())})
