"""Runs a study: what is missing is done, in worker processes, and kept unit by unit."""

from __future__ import annotations

import os
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fastsbl._base.checks import check_whole_number
from fastsbl._base.parallel import one_thread_each
from fastsbl.studies.claims import claims_markdown, markdown_table
from fastsbl.studies.config import config_to_toml, parse_config
from fastsbl.studies.environment import describe_environment, peak_memory
from fastsbl.studies.store import Store, StoreError
from fastsbl.studies.study import Record, Study, Unit

__all__ = ["Progress", "RunSummary", "run_study", "write_summary"]


class Progress(Protocol):
    """Told how a run goes on."""

    def begin(self, total: float, done: float) -> None:
        """Work begins: the cost of all units, and of those done in earlier runs."""

    def advance(self, unit: Unit, seconds: float, error: str | None) -> None:
        """One unit is done, or failed with this error."""

    def end(self) -> None:
        """No more is done, for whatever reason."""


@dataclass(frozen=True)
class RunSummary:
    """How a run ended.

    Attributes
    ----------
    folder : Path
        Where the results are.
    done, before, failed : int
        Units finished now, finished by earlier runs, and failed.
    seconds : float
        How long this run took.
    """

    folder: Path
    done: int
    before: int
    failed: int
    seconds: float


class _Answer(NamedTuple):
    position: int
    records: list[Record]
    seconds: float
    warnings: list[str]
    error: str | None
    process: int
    memory: int
    processor_seconds: float


_context: dict[str, Any] = {}
"""What the study prepared in this process, under its name and configuration; one at a time."""


def _work(study: Study[Any, Any], config_toml: str, position: int, unit: Unit) -> _Answer:
    """Do one unit; an error in it becomes part of the answer, one in preparing ends the run."""
    name = f"{study.name}\n{config_toml}"
    with warnings.catch_warnings(record=True) as caught, one_thread_each():
        warnings.simplefilter("always")
        if name not in _context:
            _context.clear()
            _context[name] = study.prepare(parse_config(study.config_type, config_toml))
        records: list[Record] = []
        error = None
        start = time.perf_counter()
        try:
            records = study.run_unit(_context[name], unit)
        except Exception as problem:
            error = "".join(traceback.format_exception_only(problem)).strip()
            where = traceback.extract_tb(problem.__traceback__)[-1]
            error += f" (in {where.name}, {Path(where.filename).name} line {where.lineno})"
    seconds = time.perf_counter() - start
    messages = list(dict.fromkeys(f"{entry.category.__name__}: {entry.message}" for entry in caught))
    return _Answer(position, records, seconds, messages, error, os.getpid(), peak_memory(), time.process_time())


_watched: set[int] = set()


def _work_apart(boss: int, study: Study[Any, Any], config_toml: str, position: int, unit: Unit) -> _Answer:
    """Do one unit in a worker process, which ends when the process that started it is killed."""
    if boss not in _watched:
        _watched.add(boss)
        threading.Thread(target=_end_without, args=(boss,), daemon=True).start()
    return _work(study, config_toml, position, unit)


def _end_without(boss: int) -> None:
    while os.getppid() == boss:
        time.sleep(1.0)
    os._exit(1)  # nobody waits for what this process is doing


def run_study(
    study: Study[Any, Any],
    config: Any,
    out: str | Path,
    *,
    n_jobs: int = 1,
    resume: bool = True,
    progress: Progress | None = None,
    command: str | None = None,
) -> RunSummary:
    """Do every unit of a study that ``out`` does not hold yet, then write its tables.

    A run that is killed loses only the units it was at; calling this again with the same arguments goes on, and ends
    with the same results (apart from times) as a run that was never interrupted.

    Parameters
    ----------
    study : Study
        What to run.
    config : dataclass
        Of ``study.config_type``.
    out : str or path
        Folder of the results: ``results.sqlite``, ``results.csv``, ``claims.md``, ``config.toml``.
    n_jobs : int
        Worker processes, each with one thread; 1 works in this process.
    resume : bool
        Whether results that are there already may be added to. They must be of the same configuration.
    progress : Progress, optional
        Told how it goes on; `fastsbl.studies.progress.RichProgress` draws a bar.
    command : str, optional
        What the user typed, kept with the environment.

    Returns
    -------
    RunSummary
        How many units were done, and how many failed. A unit that raised an error is noted with its message
        and tried again the next time; the others go on.

    Raises
    ------
    StoreError
        If ``out`` holds the results of another study or configuration, or any results with ``resume=False``.

    Examples
    --------
    >>> import tempfile
    >>> from fastsbl.studies import Store, find_study, run_study
    >>> from fastsbl.studies.screening import ScreeningConfig, SolverPlan
    >>> config = ScreeningConfig(data=("simulated",), n_rows=30, n_columns=60, targets=1, ratios=(0.5,),
    ...                          rejection=False, plans=(SolverPlan(solver="cd", rules=("auto",)),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = run_study(find_study("screening"), config, folder)
    >>> summary.done, summary.failed
    (1, 0)
    """
    began = time.perf_counter()
    n_jobs = check_whole_number(n_jobs, "n_jobs")
    folder = Path(out)
    config_toml = config_to_toml(config)
    units = list(study.units(config))
    ids = [unit.id for unit in units]
    if len(set(ids)) != len(ids):
        raise ValueError(f"study {study.name!r} lists a unit twice: {next(i for i in ids if ids.count(i) > 1)}")
    with _open(study, config_toml, folder, resume) as store:
        before = store.done() & set(ids)
        todo = [(position, unit) for position, unit in enumerate(units) if unit.id not in before]
        done = failed = 0
        if todo:
            seed = getattr(config, "seed", None)
            run = store.begin_run(describe_environment(n_jobs=n_jobs, command=command, seed=seed))
            used: dict[int, tuple[int, float]] = {}
            idle = time.process_time()
            if progress is not None:
                progress.begin(sum(u.cost for u in units), sum(u.cost for u in units if u.id in before))
            try:
                for answer in _answers(study, config_toml, todo, n_jobs):
                    unit = units[answer.position]
                    used[answer.process] = (answer.memory, answer.processor_seconds)
                    if answer.error is None:
                        store.add(
                            answer.position,
                            unit,
                            answer.records,
                            run=run,
                            seconds=answer.seconds,
                            warnings=answer.warnings,
                        )
                        done += 1
                    else:
                        store.add_failure(unit, answer.error, run=run)
                        failed += 1
                    if progress is not None:
                        progress.advance(unit, answer.seconds, answer.error)
            finally:
                used[os.getpid()] = (peak_memory(), time.process_time())
                memory, seconds = (sum(values) for values in zip(*used.values(), strict=True))
                note = {"peak memory of all processes": f"{memory / 2**30:.2f} GiB"}
                store.note(run, {**note, "processor seconds of all processes": f"{seconds - idle:.0f}"})
                if progress is not None:
                    progress.end()
        write_summary(study, store)
    return RunSummary(folder, done, len(before), failed, time.perf_counter() - began)


def _open(study: Study[Any, Any], config_toml: str, folder: Path, resume: bool) -> Store:
    if not Store.exists(folder):
        return Store.create(folder, study.name, config_toml)
    store = Store.open(folder)
    try:
        if not resume:
            raise StoreError(f"{store.path} holds results already; resume it, or choose another folder")
        if store.study_name != study.name:
            raise StoreError(f"{store.path} holds the study {store.study_name!r}, not {study.name!r}")
        if store.config_toml != config_toml:
            there, asked = set(store.config_toml.splitlines()), set(config_toml.splitlines())
            raise StoreError(
                f"{store.path} was made with another configuration; there: {'; '.join(sorted(there - asked))}; "
                f"asked: {'; '.join(sorted(asked - there))}"
            )
    except StoreError:
        store.close()
        raise
    return store


def _answers(study: Study[Any, Any], config_toml: str, todo: list[tuple[int, Unit]], n_jobs: int) -> Iterator[_Answer]:
    if n_jobs == 1:
        for position, unit in todo:
            yield _work(study, config_toml, position, unit)
        return
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")(
            delayed(_work_apart)(os.getpid(), study, config_toml, position, unit) for position, unit in todo
        )


def write_summary(study: Study[Any, Any], store: Store) -> None:
    """Write ``results.csv``, ``config.toml`` and ``claims.md`` beside the results, from what is there."""
    folder = store.path.parent
    store.export_csv(folder / "results.csv")
    (folder / "config.toml").write_text(store.config_toml, encoding="utf-8")
    lines = [f"# {study.title}", "", claims_markdown(study.claims(store))]
    for table in study.tables(store):
        lines += [f"## {table.title}", "", markdown_table(table.columns, table.rows), table.caption, ""]
    environments = store.environments()
    rows = list(environments[-1].items()) if environments else []
    rows += [("runs", str(len(environments))), ("seconds of all units", f"{store.unit_seconds():.0f}")]
    lines += ["## Environment", "", markdown_table(("", ""), rows)]
    for title, entries in (("Warnings", store.warnings()), ("Failed units", store.failures())):
        if entries:
            lines += ["", f"## {title}", ""] + [f"- {name}: {value}" for name, value in entries.items()]
    (folder / "claims.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
