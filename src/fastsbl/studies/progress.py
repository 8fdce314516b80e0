"""A progress bar for studies, drawn by rich."""

from __future__ import annotations

from typing import Any

from fastsbl.studies.study import Unit

__all__ = ["RichProgress"]


class RichProgress:
    """A bar with the share done, the time left and failures; needs rich (the extra "apps").

    Parameters
    ----------
    title : str
        Text before the bar.
    console : rich.console.Console, optional
        Where to draw; standard error by default.
    """

    def __init__(self, title: str, console: Any = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as Remaining

        self._failed = 0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
            TextColumn("left:"), Remaining(), TextColumn("{task.fields[note]}"),
            console=console or Console(stderr=True),
        )  # fmt: skip
        self._title = title
        self._task: Any = None

    def begin(self, total: float, done: float) -> None:
        """Show the bar."""
        self._task = self._bar.add_task(self._title, total=total, note="")
        self._bar.advance(self._task, done)
        self._bar.start()

    def advance(self, unit: Unit, seconds: float, error: str | None) -> None:
        """Move the bar by the cost of a unit."""
        if error is not None:
            self._failed += 1
            self._bar.console.print(f"failed: {unit.id}: {error}", markup=False)
        self._bar.update(self._task, advance=unit.cost, note=f"{self._failed} failed" if self._failed else "")

    def end(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()
