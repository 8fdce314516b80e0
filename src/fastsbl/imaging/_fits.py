"""FITS images, through astropy."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fastsbl.imaging._checks import optional_import
from fastsbl.imaging._files import is_compressed

logger = logging.getLogger(__name__)

_STRUCTURAL = (
    "SIMPLE",
    "XTENSION",
    "BITPIX",
    "EXTEND",
    "PCOUNT",
    "GCOUNT",
    "GROUPS",
    "BSCALE",
    "BZERO",
    "BLANK",
    "DATAMAX",
    "DATAMIN",
    "CHECKSUM",
    "DATASUM",
    "END",
)


class NoImageError(ValueError):
    """A FITS file without the image data asked for."""


@dataclass(frozen=True, eq=False)
class OpenImage:
    """An open FITS image or cube."""

    data: Any
    header: Any
    wcs: Any
    files: ExitStack

    @property
    def n_frames(self) -> int:
        """Number of planes."""
        return 1 if self.data.ndim == 2 else int(self.data.shape[0])

    def frame(self, index: int) -> Any:
        """Pixels of one plane."""
        return self.data if self.data.ndim == 2 else self.data[index]

    def close(self) -> None:
        """Close the file."""
        self.files.close()


@contextmanager
def _quiet() -> Iterator[None]:
    """Let through only what astropy says about truncation, as an error; real headers are rarely spotless."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*[Tt]runcated.*")
        yield


def open_image(path: Path, hdu: int | str | None) -> OpenImage:
    """Open the first extension with image data (or the one named).

    Two-dimensional data come first, cubes second; axes of length one are dropped.
    """
    fits = optional_import("astropy.io.fits", "Reading FITS")
    with _quiet(), ExitStack() as files:
        source: Any = path
        if not is_compressed(path):  # astropy may leave open what it complains about
            source = files.enter_context(path.open("rb"))
        try:
            hdus = fits.open(source, memmap=False)
            files.callback(hdus.close)
            chosen, data = _choose(path, hdus, hdu)
            wcs = celestial_wcs(chosen.header)
        except Warning as warning:
            raise OSError(str(warning)) from warning
        return OpenImage(data, chosen.header, wcs, files.pop_all())


def _choose(path: Path, hdus: Any, hdu: int | str | None) -> tuple[Any, Any]:
    """Pick the extension and its data with axes of length one removed."""
    if hdu is not None:
        try:
            chosen = hdus[hdu]
        except (KeyError, IndexError) as error:
            raise NoImageError(f"{path} has no extension {hdu!r}; it has {len(hdus)}") from error
        data = _pixels(chosen)
        if data is None or data.ndim not in (2, 3):
            raise NoImageError(f"extension {hdu!r} of {path} holds no two-dimensional image")
        return chosen, data
    cube: tuple[Any, Any] | None = None
    for candidate in hdus:
        data = _pixels(candidate)
        if data is not None and data.ndim == 2:
            return candidate, data
        if data is not None and data.ndim == 3 and cube is None:
            cube = (candidate, data)
    if cube is None:
        kinds = ", ".join(_describe(one) for one in hdus)
        raise NoImageError(f"{path} holds no two-dimensional image data (extensions: {kinds})")
    return cube


def _describe(hdu: Any) -> str:
    """Kind of an extension, and the size of what it holds."""
    if not getattr(hdu, "is_image", False):
        return type(hdu).__name__
    return f"{type(hdu).__name__} {'x'.join(map(str, hdu.shape)) or 'without data'}"


def _pixels(hdu: Any) -> Any:
    """Image data without axes of length one, or None."""
    if not getattr(hdu, "is_image", False):
        return None
    axes = hdu.shape
    if len(axes) < 2 or 0 in axes:
        return None
    data = np.asarray(hdu.data)
    extra = tuple(axis for axis in range(data.ndim - 2) if data.shape[axis] == 1)
    return np.squeeze(data, axis=extra)


def celestial_wcs(header: Any) -> Any:
    """Return the two-dimensional sky coordinates of a header, or None."""
    wcs_module = optional_import("astropy.wcs", "Reading sky coordinates")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = wcs_module.WCS(header)
            return found.celestial if found.has_celestial else None
        except Exception as error:  # astropy raises many kinds for damaged coordinates
            logger.warning("the sky coordinates of the header could not be understood: %s", error)
            return None


def write(path: Path, values: Any, wcs: Any, header: Any) -> None:
    """Write one image with its WCS and the valid cards of a header."""
    fits = optional_import("astropy.io.fits", "Writing FITS")
    kept = fits.Header()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dropped = 0
        for card in header.cards if header is not None else ():
            if card.keyword in _STRUCTURAL or card.keyword.startswith("NAXIS"):
                continue
            try:
                card.verify("exception")
                kept.append(fits.Card(card.keyword, card.value, card.comment), end=True)
                str(kept.cards[-1])
            except Exception:  # any flaw of a card means the same here
                dropped += 1
        if dropped:
            logger.warning("%d header cards are not valid FITS and were left out", dropped)
        if wcs is not None:
            kept.update(wcs.to_header(relax=True))
        stored = values.astype(np.uint8) if values.dtype.kind == "b" else values
        fits.PrimaryHDU(data=stored, header=kept).writeto(path, overwrite=True, output_verify="silentfix+ignore")
