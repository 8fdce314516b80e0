"""``fastsbl demo``: everything at work on simulated data, and a report of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastsbl.cli._console import Session, command_line, subcommand
from fastsbl.cli._output import check_place, check_reports, output_options, writing_folder

__all__ = ["command"]


@subcommand("demo", examples=("fastsbl demo", "fastsbl demo --out first-look"))
@output_options("fastsbl-demo", "Folder")
def command(session: Session, out: Path, force: bool) -> None:
    """See it work: needs no data, no arguments and no network.

    Simulates a star field, finds its stars, takes out the noise, fits a sparse regression with 5,000 features, and
    shows what screening proves on the way. Prints a short table, and writes a report and the simulated data.
    """
    check_place(out, force=force, folder=True)
    check_reports()
    start = time.perf_counter()
    first = not _compiled_before()
    if first:
        session.note("the first run compiles the inner loops, about half a minute; later runs find them done")
    from fastsbl.cli._demo import BEGUN, CHAPTERS, NEEDS, Demo, compile_meanwhile
    from fastsbl.report import Report, write_report
    from fastsbl.studies import describe_environment

    demo = Demo()
    made = {}
    with session.progress("demo", len(CHAPTERS)) as advance, _compiling_beside(first, compile_meanwhile) as compiled:
        for name in sorted(CHAPTERS, key=BEGUN.index):
            compiled(NEEDS.get(name))
            made[name] = CHAPTERS[name](demo)
            advance(name)
    chapters = [made[name] for name in CHAPTERS]
    rows = [row for chapter in chapters for row in chapter.rows]
    seconds = time.perf_counter() - start
    report = Report(
        "Sparse Bayesian learning at work",
        "Everything here was simulated, so the truth is known and stands beside each answer.",
        [chapter.section for chapter in chapters],
        command=command_line(),
        environment=describe_environment() | {"time": f"{seconds:.1f} s"},
        highlights={name: answer for name, answer, _ in rows if name in ("stars found", "true features found")},
    )
    with writing_folder(out, force=force) as temporary:
        demo.write(temporary)
        write_report(report, temporary / "report.html")
    session.table(("", "found", "truth"), rows)
    session.say(f"the report: {out / 'report.html'}")
    session.say(f"next, try:  fastsbl locate {out / 'stars.fits'}")
    session.say(f"            fastsbl fit {out / 'regression.npz'}")
    session.finish(
        {"seconds": seconds, "results": [dict(zip(("what", "found", "truth"), row, strict=True)) for row in rows],
         "report": str(out / "report.html")}
    )  # fmt: skip


@contextmanager
def _compiling_beside(needed: bool, meanwhile: Callable[[], None]) -> Iterator[Callable[[str | None], None]]:
    """Compile loops in a second process while this one compiles others; gives what waits for a part of them.

    The first wait for fits begins with ``meanwhile``. Compiled loops are kept on disk, so this process finds them
    there. Without a second core nothing would be gained. However the second process ends, what it did not compile is
    compiled here.
    """
    if not needed or (os.cpu_count() or 1) < 2:
        yield lambda part: None
        return
    code = "from fastsbl.cli._demo import compile_fits; compile_fits()"
    quiet = subprocess.DEVNULL
    helper = subprocess.Popen(
        [sys.executable, "-c", code], stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, text=True
    )  # fmt: skip
    lines = helper.stdout
    assert lines is not None
    said: set[str] = set()

    def wait(part: str | None) -> None:
        if part == "fits" and part not in said:
            meanwhile()
        while part is not None and part not in said and (line := lines.readline()):
            said.add(line.strip())

    try:
        yield wait
    finally:
        if helper.poll() is None:
            helper.terminate()
        helper.wait()
        lines.close()


def _compiled_before() -> bool:
    """Whether an earlier run has left compiled loops behind."""
    import numba

    import fastsbl

    folder = Path(numba.config.CACHE_DIR or Path(fastsbl.__file__).parent)
    return folder.is_dir() and any(folder.rglob("_kernels.*.nbi"))
