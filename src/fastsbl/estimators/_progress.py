"""Progress of long work: a bar where rich or tqdm is installed, the log otherwise."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["progress"]

_log = logging.getLogger("fastsbl")

Advance = Callable[[str], None]


@contextmanager
def progress(verbose: Any, label: str, total: int | None = None) -> Iterator[Advance | None]:
    """Give a function that reports one step and what it was, or None if ``verbose`` is 0.

    Bars go to the error stream. ``total`` is the number of steps, if it is known.
    """
    if not verbose:
        yield None
        return
    for bar in (_rich_bar, _tqdm_bar):
        try:
            context = bar(label, total)
        except ImportError:
            continue
        with context as advance:
            yield advance
        return
    yield lambda what: _log.info("%s: %s", label, what)


def _rich_bar(label: str, total: int | None) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    @contextmanager
    def bar() -> Iterator[Advance]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[what]}"),
        )
        with Progress(*columns, console=Console(stderr=True)) as shown:
            task = shown.add_task(label, total=total, what="")
            yield lambda what: shown.update(task, advance=1, what=what)

    return bar()


def _tqdm_bar(label: str, total: int | None) -> Any:
    from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]

    @contextmanager
    def bar() -> Iterator[Advance]:
        with tqdm(desc=label, total=total, file=sys.stderr) as shown:

            def advance(what: str) -> None:
                shown.set_postfix_str(what, refresh=False)
                shown.update()

            yield advance

    return bar()
