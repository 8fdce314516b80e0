"""Images in and out: FITS, TIFF (ImageJ stacks too), PNG, NPY and tables of numbers.

`read_image` gives one image, `iter_frames` the frames of a stack one after the other, holding one at a time.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.brief import Brief
from fastsbl._base.types import BoolArray, FloatArray
from fastsbl.imaging import _fits
from fastsbl.imaging._checks import optional_import
from fastsbl.imaging._files import atomic_path, is_compressed, open_text, suffix_of
from fastsbl.imaging._stacks import FITS, STACKS, ImageFormatError, Stack, clear_errors

__all__ = ["ImageData", "ImageFormatError", "iter_frames", "read_image", "write_image"]

logger = logging.getLogger(__name__)

_TABLES = (".txt", ".dat", ".csv")


@dataclass(frozen=True, eq=False, repr=False)
class ImageData(Brief):
    """An image and what its file says about it.

    Attributes
    ----------
    array : ndarray of shape (height, width)
        Pixel values as float64; non-finite pixels are kept as they are.
    mask : ndarray of bool, shape (height, width)
        True where the pixel is not finite.
    wcs : astropy.wcs.WCS or None
        Sky coordinates, when the file is FITS and has celestial ones.
    header : astropy.io.fits.Header or None
        Header of the FITS extension.
    meta : dict
        `path`, `format`, `dtype` as stored, and for frames of stacks `frame` (from 0) and `n_frames`.

    Examples
    --------
    >>> import numpy as np
    >>> ImageData.from_array(np.array([[1.0, np.nan]])).mask
    array([[False,  True]])
    """

    array: FloatArray
    mask: BoolArray
    wcs: Any = None
    header: Any = None
    meta: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_array(cls, values: ArrayLike, *, wcs: Any = None, header: Any = None, **meta: Any) -> ImageData:
        """Wrap a two-dimensional array of real numbers, converting it to float64.

        Parameters
        ----------
        values : array of shape (height, width)
            Pixel values of any real type.
        wcs, header : optional
            As the attributes.
        **meta
            Entries of `meta`.

        Returns
        -------
        ImageData
            The image.

        Examples
        --------
        >>> ImageData.from_array([[1, 2]]).array
        array([[1., 2.]])
        """
        raw = np.asarray(values)
        where = f" in {meta['path']}" if "path" in meta else ""
        if raw.dtype.kind not in "biuf":
            raise ImageFormatError(f"pixels must be real numbers; got dtype {raw.dtype}{where}")
        if raw.ndim != 2 or raw.size == 0:
            raise ImageFormatError(f"an image must be two-dimensional and not empty; got shape {raw.shape}{where}")
        array = np.array(raw, dtype=np.float64, order="C")
        return cls(array, ~np.isfinite(array), wcs, header, {**meta, "dtype": str(raw.dtype)})


def read_image(
    path: str | os.PathLike[str],
    *,
    frame: int | None = None,
    hdu: int | str | None = None,
    rgb: str = "refuse",
    skip_rows: int = 0,
) -> ImageData:
    """Read one image; the file's name says which format it is in.

    Parameters
    ----------
    path : path-like
        `.fits`, `.fit`, `.fts`, `.fits.fz`, `.tif`, `.tiff`, `.npy`, `.txt`, `.dat`, `.csv` (numbers only), each also
        with `.gz`, or `.png`.
    frame : int, optional
        Which frame of a stack, counted from 0. A stack with several needs it.
    hdu : int or str, optional
        Which FITS extension; by default the first with two-dimensional image data.
    rgb : {"refuse", "convert"}, default "refuse"
        Colour PNG: refuse it, or take its luminance (said in the log).
    skip_rows : int, default 0
        Lines to leave out at the top of a table of numbers.

    Returns
    -------
    ImageData
        Pixels as float64, mask of non-finite pixels, WCS and header where there are any.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.npy"
    >>> _ = write_image(path, [[1.0, 2.0], [3.0, 4.0]])
    >>> read_image(path).array
    array([[1., 2.],
           [3., 4.]])
    """
    file = _existing(path)
    if rgb not in ("refuse", "convert"):
        raise ValueError(f'rgb must be "refuse" or "convert"; got {rgb!r}')
    suffix = suffix_of(file)
    meta = {"path": str(file), "format": suffix.lstrip(".")}
    if suffix in STACKS:
        return _pick_frame(file, frame, STACKS[suffix](file, hdu))
    if frame not in (None, 0):
        raise ValueError(f"frame must be None or 0 for a {suffix} file, which holds one image; got {frame!r}")
    if suffix == ".png":
        with clear_errors(file):
            values = _read_png(file, rgb)
        return ImageData.from_array(values, **meta)
    if suffix in _TABLES:
        with clear_errors(file):
            values = _read_table(file, skip_rows)
        return ImageData.from_array(values, **meta)
    raise ImageFormatError(
        f"path must end in one of {', '.join([*STACKS, '.png', *_TABLES])} (with .gz or without); got {file.name}"
    )


def iter_frames(path: str | os.PathLike[str], *, hdu: int | str | None = None) -> Iterator[ImageData]:
    """Go through the frames of a stack, holding one at a time.

    Parameters
    ----------
    path : path-like
        A TIFF or ImageJ stack, a FITS cube, a three-dimensional NPY array (mapped, not loaded), or any single
        image, which counts as a stack of one. Files ending in `.gz` are unpacked in memory.
    hdu : int or str, optional
        Which FITS extension; by default the first with image data of two or three dimensions.

    Yields
    ------
    ImageData
        Frame after frame; `meta` has `frame`, counted from 0, and `n_frames`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "stack.npy"
    >>> np.save(path, np.zeros((3, 4, 5)))
    >>> [(frame.meta["frame"], frame.array.shape) for frame in iter_frames(path)]
    [(0, (4, 5)), (1, (4, 5)), (2, (4, 5))]
    """
    file = _existing(path)
    suffix = suffix_of(file)
    if suffix not in STACKS:
        image = read_image(file)
        image.meta.update(frame=0, n_frames=1)
        yield image
        return
    opened = STACKS[suffix](file, hdu)
    with opened as stack:
        for index in range(stack.n_frames):
            yield _frame(stack, file, index)


def write_image(
    path: str | os.PathLike[str],
    array: ArrayLike,
    *,
    wcs: Any = None,
    header: Any = None,
    overwrite: bool = False,
    scale: tuple[float, float] | None = None,
) -> Path:
    """Write an image whole or not at all: a temporary file beside it is renamed at the end.

    Parameters
    ----------
    path : path-like
        `.fits[.gz]` (type kept), `.tif` (float32; integers kept), `.png` (16-bit grey) or `.npy`.
    array : array of shape (height, width)
        The image.
    wcs : astropy.wcs.WCS, optional
        Written into a FITS header.
    header : astropy.io.fits.Header, optional
        Further cards for FITS; cards that are not valid FITS are left out, with a word in the log.
    overwrite : bool, default False
        Whether an existing file may be replaced.
    scale : (float, float), optional
        PNG only: the values that become black and white, by default the smallest and largest finite ones.

    Returns
    -------
    Path
        Where the image is.

    Examples
    --------
    >>> import tempfile
    >>> write_image(Path(tempfile.mkdtemp()) / "zero.npy", np.zeros((2, 3))).name
    'zero.npy'
    """
    file = Path(path)
    values = np.asarray(array)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise ValueError(f"array must be a two-dimensional real image; got shape {values.shape}, {values.dtype}")
    suffix = suffix_of(file)
    writers: dict[str, Callable[[Path], None]] = {
        ".png": lambda out: _write_png(out, values, scale),
        ".npy": lambda out: np.save(out, values, allow_pickle=False),
        **dict.fromkeys((".tif", ".tiff"), lambda out: _write_tiff(out, values)),
        **dict.fromkeys(FITS, lambda out: _fits.write(out, values, wcs, header)),
    }
    if suffix not in writers or (is_compressed(file) and suffix not in FITS):
        raise ValueError(f"path must end in .fits[.gz], .tif, .png or .npy; got {file.name}")
    with atomic_path(file, overwrite=overwrite) as temporary:
        writers[suffix](temporary)
    return file


def _frame(stack: Stack, file: Path, index: int) -> ImageData:
    with clear_errors(file):
        values = stack.frame(index)
    return ImageData.from_array(
        values,
        wcs=stack.wcs,
        header=stack.header,
        path=str(file),
        format=suffix_of(file).lstrip("."),
        frame=index,
        n_frames=stack.n_frames,
    )


def _pick_frame(file: Path, frame: int | None, stack: Stack) -> ImageData:
    with stack:
        if frame is None and stack.n_frames > 1:
            raise ImageFormatError(
                f"{file} holds {stack.n_frames} frames: pass frame (0 to {stack.n_frames - 1}), or use iter_frames"
            )
        index = 0 if frame is None else int(frame)
        if not 0 <= index < stack.n_frames:
            raise ValueError(f"frame must lie between 0 and {stack.n_frames - 1} for {file}; got {frame!r}")
        return _frame(stack, file, index)


def _existing(path: str | os.PathLike[str]) -> Path:
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {file}")
    return file


def _read_png(file: Path, rgb: str) -> Any:
    pillow = optional_import("PIL.Image", "Reading PNG", "pillow")
    with pillow.open(file, formats=["PNG"]) as picture:
        if picture.mode == "P":
            picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
        values = np.array(picture)
    if values.ndim == 2:
        return values
    if values.shape[2] in (2, 4):
        logger.info("%s: the alpha channel is left out", file)
        values = values[..., :-1]
    if np.all(values == values[..., :1]):  # grey, written as colour
        return values[..., 0]
    if rgb == "refuse":
        raise ImageFormatError(
            f'{file} is a colour image; an image of point sources is grey (rgb="convert" takes the luminance)'
        )
    logger.info("%s: colour converted to luminance, 0.2125 R + 0.7154 G + 0.0721 B", file)
    return values @ np.array([0.2125, 0.7154, 0.0721])


def _read_table(file: Path, skip_rows: int) -> FloatArray:
    delimiter = "," if suffix_of(file) == ".csv" else None
    with open_text(file) as lines, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # numpy warns of empty files
        try:
            return np.loadtxt(lines, ndmin=2, skiprows=skip_rows, delimiter=delimiter)
        except UserWarning as warning:
            raise ImageFormatError(f"{file} must be a table of numbers; it is empty") from warning
        except ValueError as error:
            raise ImageFormatError(
                f"{file} must be a table of numbers with equally long rows ({error}); skip_rows leaves out "
                f"lines at the top"
            ) from error


def _write_tiff(out: Path, values: Any) -> None:
    kept = values if values.dtype.kind in "iu" else values.astype(np.float32)
    optional_import("tifffile", "Writing TIFF").imwrite(out, kept)


def _write_png(out: Path, values: Any, scale: tuple[float, float] | None) -> None:
    array = np.asarray(values, dtype=np.float64)
    finite = array[np.isfinite(array)]
    if scale is None:
        scale = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low, high = float(scale[0]), float(scale[1])
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"scale must be a pair (black, white) with black <= white; got {scale!r}")
    span = high - low if high > low else 1.0
    grey = np.nan_to_num(np.clip((array - low) / span, 0.0, 1.0), nan=0.0)
    logger.info("PNG scaled: black %g, white %g", low, high)
    pillow = optional_import("PIL.Image", "Writing PNG", "pillow")
    pillow.fromarray(np.round(grey * 65535).astype(np.uint16)).save(out, format="PNG")
