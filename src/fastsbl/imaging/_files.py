"""Files written whole or not at all."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

_COMPRESSED = (".gz",)


def suffix_of(path: Path) -> str:
    """Lower-case suffix of a file name, ".gz" left aside.

    Examples
    --------
    >>> suffix_of(Path("frame.FITS.gz"))
    '.fits'
    """
    inner = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return inner.suffix.lower()


def is_compressed(path: Path) -> bool:
    """Whether the name says that the file is gzipped."""
    return path.suffix.lower() in _COMPRESSED


def open_text(path: Path) -> IO[str]:
    """Open a text file for reading, unpacking it if it is gzipped."""
    if is_compressed(path):
        return cast("IO[str]", gzip.open(path, "rt", encoding="utf-8", newline=""))
    return path.open("r", encoding="utf-8", newline="")


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary path beside `path` with the same ending; rename it when the block succeeds.

    Parameters
    ----------
    path : path-like
        Where the file is to appear.
    overwrite : bool
        Whether an existing file may be replaced.

    Yields
    ------
    Path
        Where to write.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt", overwrite=False) as temporary:
    ...     _ = temporary.write_text("done")
    >>> [file.name for file in folder.iterdir()]
    ['a.txt']
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True to replace it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist")
    ending = "".join(target.suffixes[-2:]) if is_compressed(target) else target.suffix
    handle, name = tempfile.mkstemp(prefix=".writing-", suffix=ending, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
