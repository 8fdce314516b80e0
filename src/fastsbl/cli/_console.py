"""What a command prints: tables for people, one JSON object for programs, progress beside both."""

from __future__ import annotations

import functools
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

__all__ = ["Session", "as_plain_data", "command_line", "plain", "subcommand"]

Advance = Callable[[str], None]


def plain(text: object) -> str:
    r"""Return ``text`` with everything that could steer a terminal written as an escape.

    Examples
    --------
    >>> print(plain("red\x1b[31m"))
    red\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))


def command_line() -> str:
    """Return what the user typed, ready to be typed again."""
    context = click.get_current_context()
    return str(context.find_root().meta.get("fastsbl.command", context.command_path))


def as_plain_data(value: Any) -> Any:
    """Turn arrays and numpy numbers into lists and Python's numbers; NaN and infinity, which JSON lacks, into None.

    Examples
    --------
    >>> as_plain_data({"a": np.arange(2), "b": float("nan")})
    {'a': [0, 1], 'b': None}
    """
    if isinstance(value, dict):
        return {str(key): as_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain_data(item) for item in value]
    if isinstance(value, np.ndarray):
        return as_plain_data(value.tolist())
    if isinstance(value, np.generic):
        return as_plain_data(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


@dataclass
class Session:
    """Where a command writes to: people read the standard output unless ``json``, then one object is all it gets."""

    json: bool = False
    verbose: bool = False

    def say(self, text: str = "") -> None:
        """Print a line for people."""
        if not self.json:
            click.echo("\n".join(plain(line) for line in text.split("\n")))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> None:
        """Print a table for people; columns whose cells are all numbers stand to the right."""
        if self.json:
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=SIMPLE_HEAD, title=title and Text(plain(title)), title_justify="left", pad_edge=False)
        for k, name in enumerate(columns):
            numeric = all(_is_number(row[k]) for row in rows)
            shown.add_column(Text(plain(name)), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(Text(plain(_cell(value))) for value in row))
        terminal = sys.stdout.isatty()
        Console(file=sys.stdout, width=None if terminal else 110, highlight=False).print(shown)

    def finish(self, data: dict[str, Any]) -> None:
        """Print the result for programs."""
        if self.json:
            click.echo(json.dumps(as_plain_data(data), indent=2, ensure_ascii=True))

    def note(self, text: str) -> None:
        """Say something about the work on the error stream."""
        click.echo(f"fastsbl: {plain(text)}", err=True)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Advance]:
        """Give a function that is told each step: a bar on a terminal, now and then a plain line elsewhere."""
        if not sys.stderr.isatty():
            yield _PlainProgress(self, label, total)
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        counts = () if total is None else (MofNCompleteColumn(),)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            *counts,
            TimeElapsedColumn(),
        )
        what = TextColumn("{task.fields[what]}", markup=False)
        with Progress(*columns, what, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(plain(label), total=total, what="")
            yield lambda text: bar.update(task, advance=1, what=plain(text))


class _PlainProgress:
    """Says where the work is, at most every few seconds."""

    every = 5.0

    def __init__(self, session: Session, label: str, total: int | None) -> None:
        self._session, self._label, self._total = session, label, total
        self._count = 0
        self._said = time.monotonic()

    def __call__(self, text: str) -> None:
        self._count += 1
        if time.monotonic() - self._said >= self.every:
            of = "" if self._total is None else f" of {self._total}"
            self._session.note(f"{self._label}: {self._count}{of} {text}".rstrip())
            self._said = time.monotonic()


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def subcommand(
    name: str, *, examples: Sequence[str] = (), settings: dict[str, Any] | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function that takes a `Session` first; the docstring is its help.

    Adds what all commands have, ``--json``, ``--verbose`` and ``--debug``, and the examples; ``settings`` are those
    of click's contexts.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def call(json: bool, verbose: bool, debug: bool, **options: Any) -> Any:
            logging.getLogger("fastsbl").setLevel(logging.INFO if verbose else logging.WARNING)
            return function(Session(json=json, verbose=verbose), **options)

        for option in (
            click.option("--debug", is_flag=True, help="Show the whole traceback of an error."),
            click.option("-v", "--verbose", is_flag=True, help="Log what happens."),
            click.option("--json", is_flag=True, help="Print one JSON object instead of text."),
        ):
            call = option(call)
        epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)]) if examples else None
        first = " ".join((function.__doc__ or "").strip().split("\n\n")[0].split())  # whole: click would cut it short
        return click.command(name, short_help=first, epilog=epilog, context_settings=settings)(call)

    return decorate
