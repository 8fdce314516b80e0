"""``fastsbl study``: the paper's experiments, run, resumed and read."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fastsbl.cli._console import Session, command_line, subcommand
from fastsbl.cli._output import check_place, check_reports, writing_file

__all__ = ["command"]

_FIELDS = {"ignore_unknown_options": True, "allow_extra_args": True}


@subcommand(
    "study",
    examples=(
        "fastsbl study                                  # which there are",
        "fastsbl study screening --show                 # all options of one, with their values",
        "fastsbl study screening --quick",
        "fastsbl study screening --data mnist --targets 20 --jobs 2 --out screening-mnist",
        "fastsbl study screening --config mine.toml",
    ),
    settings=_FIELDS,
)
@click.argument("name", required=False)
@click.argument("fields", nargs=-1, type=click.UNPROCESSED, metavar="[--FIELD VALUE]...")
@click.option("--quick", is_flag=True, help="So small that it takes less than a minute.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with fields of the study.")
@click.option("--show", is_flag=True, help="Print the configuration and do nothing.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Worker processes.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the results.  [default: study-NAME]")
@click.option("--force", is_flag=True, help="Start over: drop the results that the folder holds.")
def command(
    session: Session,
    name: str | None,
    fields: tuple[str, ...],
    quick: bool,
    config: Path | None,
    show: bool,
    jobs: int,
    out: Path | None,
    force: bool,
) -> None:
    """Run the study NAME, or go on with it, and write its figures, claims and report.

    Without NAME, lists the studies. The fields of a study's configuration are options: `targets` is `--targets 20`,
    several values are `--ratios 0.1,0.5`. The folder keeps every finished piece of work, so a run that was stopped goes
    on when the same command is given again.
    """
    from fastsbl.studies import find_study, study_names

    if name is None or name.startswith("-"):
        known = [(one, find_study(one).title) for one in study_names()]
        session.table(("study", "what it is about"), known)
        session.finish({"studies": dict(known)})
        return
    study = find_study(name)
    settings = _configure(study, fields, config, quick=quick)
    if show:
        from fastsbl.studies import config_to_toml

        session.say(config_to_toml(settings).rstrip())
        session.finish({"study": name, "config": tomllib.loads(config_to_toml(settings))})
        return
    folder = Path(f"study-{name}") if out is None else out
    check_place(folder, force=True, folder=True)
    check_reports()
    if force:
        _drop_results(folder)
    summary = _run(session, study, settings, folder, jobs)
    claims = _write(study, folder)
    session.table(("claim", "verdict", "measured"), [(one.sentence, one.verdict, one.measured) for one in claims])
    session.say(f"{summary.done} pieces of work done in {summary.seconds:.0f} s, {summary.before} before")
    if summary.failed:
        session.note(f"{summary.failed} pieces of work failed: {folder / 'claims.md'} lists them")
    session.say(f"the report: {folder / 'report.html'}")
    session.finish(
        {
            "study": name,
            "folder": str(folder),
            "done": summary.done,
            "before": summary.before,
            "failed": summary.failed,
            "seconds": summary.seconds,
            "claims": [{"claim": c.sentence, "verdict": c.verdict, "measured": c.measured} for c in claims],
        }
    )


def _configure(study: Any, fields: Sequence[str], path: Path | None, *, quick: bool) -> Any:
    """The configuration: the default one or a file, then what the command line says; --quick shrinks the rest."""
    from fastsbl.studies import read_config, replace_config

    if path is not None and not path.is_file():
        raise ValueError(f"there is no file {path}")
    settings = study.config_type() if path is None else read_config(study.config_type, path)
    changes = _changes(fields)
    settings = replace_config(settings, changes)
    if quick:
        settings = replace_config(study.quick(settings), changes)
    return settings


def _changes(fields: Sequence[str]) -> dict[str, Any]:
    """Read ``--field value``, ``--field=value`` and ``--field``, values as in TOML."""
    changes: dict[str, Any] = {}
    rest = list(fields)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise click.UsageError(f"unexpected argument {word}; fields of a study are given as --FIELD VALUE")
        key, has_value, text = word[2:].partition("=")
        if not has_value:
            text = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        changes[key.replace("-", "_")] = _value(text)
    return changes


def _value(text: str) -> Any:
    for attempt in (text, f"[{text}]"):
        try:
            return tomllib.loads(f"value = {attempt}")["value"]
        except tomllib.TOMLDecodeError:
            continue
    return text.split(",") if "," in text else text


def _drop_results(folder: Path) -> None:
    """Remove the results of a study, and nothing else."""
    for name in ("results.sqlite", "results.sqlite-wal", "results.sqlite-shm"):
        (folder / name).unlink(missing_ok=True)


def _run(session: Session, study: Any, settings: Any, folder: Path, jobs: int) -> Any:
    from fastsbl.studies import run_study

    progress: Any = _Lines(session, study.name)
    if not session.json and sys.stderr.isatty():
        from fastsbl.studies.progress import RichProgress

        progress = RichProgress(study.name)
    try:
        return run_study(study, settings, folder, n_jobs=jobs, progress=progress, command=command_line())
    except KeyboardInterrupt:
        session.note(f"what was finished is kept in {folder}; the same command goes on from there")
        raise


class _Lines:
    """Tells how a study goes on, in plain lines."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name
        self._total = self._done = 0.0
        self._context: Any = None
        self._advance: Any = None

    def begin(self, total: float, done: float) -> None:
        """Work begins."""
        self._total, self._done = total, done
        self._context = self._session.progress(self._name)
        self._advance = self._context.__enter__()

    def advance(self, unit: Any, seconds: float, error: str | None) -> None:
        """One piece is done."""
        self._done += unit.cost
        if error is not None:
            self._session.note(f"failed: {unit.id}: {error}")
        self._advance(f"pieces now, {100 * self._done / self._total:.0f} % of all the work")

    def end(self) -> None:
        """No more is done."""
        self._context.__exit__(None, None, None)


def _write(study: Any, folder: Path) -> list[Any]:
    """Draw the figures and write the report of the results in a folder."""
    from fastsbl.report import draw, write_picture, write_report
    from fastsbl.report.studies import study_report
    from fastsbl.studies import Store

    with Store.open(folder) as store:
        report, figures, claims = study_report(study, store)
    for figure in figures:
        drawn = draw(figure)
        for kind in ("png", "svg"):
            with writing_file(folder / f"{figure.name}.{kind}", force=True) as temporary:
                write_picture(drawn, temporary)
    with writing_file(folder / "report.html", force=True) as temporary:
        write_report(report, temporary)
    return claims
