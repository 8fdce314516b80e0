"""Where commands write: nothing is replaced unless asked, nothing is left half written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

__all__ = ["check_more_places", "check_place", "check_reports", "output_options", "writing_file", "writing_folder"]


def output_options(default: str, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--out`` and ``--force``."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function = click.option("--force", is_flag=True, help="Replace what is there already.")(function)
        return click.option(
            "--out", type=click.Path(path_type=Path), default=default, show_default=True, help=f"{what} to write."
        )(function)

    return decorate


def check_place(path: Path, *, force: bool, folder: bool = False) -> Path:
    """Say before the work whether its result can be written to ``path``."""
    if not path.parent.is_dir():
        raise click.ClickException(f"the folder {path.parent} for {path.name} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise click.ClickException(f"the folder {path.parent} cannot be written to")
    if path.exists():
        if path.is_dir() != folder:
            kind = "a folder" if path.is_dir() else "a file"
            raise click.ClickException(f"{path} is {kind}; --out names another place")
        if not force:
            raise click.ClickException(f"{path} exists; --force replaces it, --out names another place")
    return path


def check_more_places(page: Path | None, folder: Path | None, out: Path, *, force: bool) -> None:
    """Check where a report and a folder of images would go, beside ``out``."""
    places = [place for place in (page, folder, out) if place is not None]
    if len({place.absolute() for place in places}) < len(places):
        raise click.UsageError("the places to write to must differ")
    if page is not None:
        check_reports()
        check_place(page, force=force)
    if folder is not None:
        check_place(folder, force=force, folder=True)


def check_reports() -> None:
    """Say before the work whether a report can be drawn and written."""
    from fastsbl.imaging._checks import optional_import

    for module in ("matplotlib", "jinja2"):
        optional_import(module, "A report")


@contextmanager
def writing_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Give a temporary name beside ``path``, and rename it when the block has succeeded."""
    from fastsbl.imaging._files import atomic_path

    check_place(path, force=force)
    try:
        with atomic_path(path, overwrite=True) as temporary:
            yield temporary
    except OSError as error:
        if not Path(error.filename or path).name.startswith(".writing-"):
            raise
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def writing_folder(path: Path, *, force: bool) -> Iterator[Path]:
    """Give a temporary folder beside ``path``, and move what is in it into place when the block has succeeded.

    Files of the same names are replaced (only with ``force``); others in an existing folder stay.
    """
    check_place(path, force=force, folder=True)
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=path.parent))
    try:
        yield temporary
        if not path.exists():
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o777 & ~umask)
            os.replace(temporary, path)
            return
        for folder, _, names in os.walk(temporary):
            place = path / Path(folder).relative_to(temporary)
            place.mkdir(exist_ok=True)
            for name in names:
                os.replace(Path(folder) / name, place / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
