"""Open image files as stacks of frames, and say clearly what is wrong with damaged ones."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from fastsbl.imaging import _fits
from fastsbl.imaging._checks import optional_import
from fastsbl.imaging._files import is_compressed


class ImageFormatError(ValueError):
    """A file that exists but does not hold the image it should."""


class Stack:
    """An open file that gives frames by index; formats fill in `n_frames` and `frame`."""

    def __init__(self, n_frames: int, frame: Callable[[int], Any], close: Callable[[], None]) -> None:
        self.n_frames = n_frames
        self._frame = frame
        self._close = close
        self.wcs: Any = None
        self.header: Any = None

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def frame(self, index: int) -> Any:
        """Pixels of one frame."""
        return self._frame(index)


@contextmanager
def clear_errors(file: Path) -> Iterator[None]:
    """Turn whatever a reader raises on damaged content into one sentence."""
    try:
        yield
    except (ImageFormatError, ImportError, MemoryError):
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ImageFormatError(f"{file} is truncated or damaged: {error}") from error
    except (OSError, ValueError, TypeError, IndexError, KeyError, SyntaxError, RuntimeError) as error:
        raise ImageFormatError(f"{file} could not be read as an image (truncated or damaged?): {error}") from error


def _open_bytes(file: Path) -> IO[bytes]:
    """Open the file; a gzipped one is unpacked in memory, since readers jump about."""
    if not is_compressed(file):
        return file.open("rb")
    with gzip.open(file, "rb") as packed:
        return io.BytesIO(packed.read())


def _open_fits(file: Path, hdu: int | str | None) -> Stack:
    with clear_errors(file):
        try:
            opened = _fits.open_image(file, hdu)
        except _fits.NoImageError as error:
            raise ImageFormatError(str(error)) from error
    stack = Stack(opened.n_frames, opened.frame, opened.close)
    stack.wcs, stack.header = opened.wcs, opened.header
    return stack


def _check_tiff_chain(file: Path, source: IO[bytes], size: int) -> None:
    """Follow the directories of a TIFF file; one that lies beyond the end means that the file was cut."""

    def number(place: int, length: int) -> int:
        source.seek(place)
        return int.from_bytes(source.read(length), order)

    source.seek(0)
    order: Literal["little", "big"] = "little" if source.read(2) == b"II" else "big"
    wide = number(2, 2) == 43
    width, count_width, entry = (8, 8, 20) if wide else (4, 2, 12)
    place = number(8 if wide else 4, width)
    seen = set()
    while place:
        after = place + count_width + entry * number(place, count_width)
        if after + width > size or place in seen:
            raise ImageFormatError(f"{file} is truncated: a directory of frames lies beyond the end of the file")
        seen.add(place)
        place = number(after, width)


def _open_tiff(file: Path, hdu: int | str | None) -> Stack:
    tifffile = optional_import("tifffile", "Reading TIFF")
    with clear_errors(file):
        source = _open_bytes(file)
        try:
            handle = tifffile.TiffFile(source)
            size = source.seek(0, io.SEEK_END)
            _check_tiff_chain(file, source, size)
            series = handle.series[0]
            pages = series.pages
            one_block = len(pages) == 1 and series.ndim == 3 and pages[0].ndim == 2
            whole = series.asarray() if one_block else None
        except ImageFormatError:
            source.close()
            raise
        except Exception as error:
            source.close()
            raise ImageFormatError(f"{file} could not be read as TIFF (truncated or damaged?): {error}") from error

    def frame(index: int) -> Any:
        if whole is not None:
            return whole[index]
        page = pages[index]
        ends = zip(page.dataoffsets, page.databytecounts, strict=True)
        if not page.dataoffsets or any(start + length > size for start, length in ends):
            raise ImageFormatError(f"{file} is truncated: frame {index} lies beyond the end of the file")
        return page.asarray()

    def close() -> None:
        handle.close()
        source.close()

    return Stack(len(pages) if whole is None else whole.shape[0], frame, close)


def _open_npy(file: Path, hdu: int | str | None) -> Stack:
    with clear_errors(file):
        if is_compressed(file):
            with _open_bytes(file) as source:
                values = np.load(source, allow_pickle=False)
        else:
            values = np.load(file, mmap_mode="r", allow_pickle=False)
    if values.ndim == 3:
        return Stack(values.shape[0], lambda index: values[index], lambda: None)
    return Stack(1, lambda index: values, lambda: None)


FITS = (".fits", ".fit", ".fts")
STACKS: dict[str, Callable[[Path, int | str | None], Stack]] = {
    **dict.fromkeys((*FITS, ".fz"), _open_fits),  # .fits.fz: compressed by tiles
    **dict.fromkeys((".tif", ".tiff"), _open_tiff),
    ".npy": _open_npy,
}
