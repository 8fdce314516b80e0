"""Where data files are looked for, and how they are opened: gzipped or plain, always in bounded pieces."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

PathLike: TypeAlias = str | os.PathLike[str]

DATA_VARIABLE = "FASTSBL_DATA"
CACHE_VARIABLE = "FASTSBL_CACHE"


class Bunch:
    """Base of the loaders' frozen results: fields are read as attributes or by name."""

    def __getitem__(self, name: str) -> Any:
        """Return the field called ``name``."""
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        fields: dict[str, Any] = getattr(self, "__dataclass_fields__", {})
        return tuple(fields)


def user_cache() -> Path:
    """Return the folder for downloads and parsed files: FASTSBL_CACHE, else the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fastsbl"


def download_folder(data_home: PathLike | None, subfolder: str) -> Path:
    """Return the folder that downloads go to: ``data_home`` when given, else a subfolder of the cache."""
    return Path(data_home).expanduser() if data_home is not None else user_cache() / subfolder


def search_folders(data_home: PathLike | None, subfolders: Iterable[str]) -> list[Path]:
    """Return the folders to look in, first choice first: ``data_home``, FASTSBL_DATA, the user's cache."""
    roots = [Path(data_home).expanduser()] if data_home is not None else []
    if os.environ.get(DATA_VARIABLE):
        roots.append(Path(os.environ[DATA_VARIABLE]).expanduser())
    roots.append(user_cache())
    names = tuple(subfolders)
    return [folder for root in roots for folder in (root, *(root / name for name in names))]


def find_file(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    """Return the first file found under any of ``names`` in the folders, searched in order."""
    candidates = tuple(names)
    for folder in folders:
        for name in candidates:
            if (folder / name).is_file():
                return folder / name
    return None


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that may be gzipped (told by its first two bytes); damaged gzip data is a ValueError."""
    with path.open("rb") as raw:
        is_gzip = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if not is_gzip:
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw, mode="rb") as inflated:
                yield inflated  # type: ignore[misc]  # GzipFile reads like any binary file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: expected a whole gzip file, but it is truncated or damaged ({error})") from error


def read_at_most(file: IO[bytes], limit: int) -> bytearray:
    """Read up to ``limit`` bytes; memory follows what the file holds, not what its header claims."""
    content = bytearray()
    while len(content) < limit:
        piece = file.read(min(limit - len(content), 1 << 20))
        if not piece:
            break
        content += piece
    return content
