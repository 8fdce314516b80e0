"""Catalogues of found sources: one typed table, and the images that belong to it."""

from __future__ import annotations

import enum
import logging
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from fastsbl._base.brief import Brief
from fastsbl._base.types import FloatArray
from fastsbl.imaging import _thunderstorm
from fastsbl.imaging._checks import optional_import
from fastsbl.imaging._files import atomic_path, suffix_of

__all__ = ["COLUMNS", "SourceCatalog", "SourceFlag", "add_sky_coordinates", "empty_table", "read_catalog"]

logger = logging.getLogger(__name__)

Format: TypeAlias = Literal["ecsv", "fits", "csv", "thunderstorm"]

COORDINATES = "pixel centres at integers from 0, x = column"

COLUMNS: dict[str, tuple[type, str]] = {
    "id": (np.int64, "running number, from 1"),
    "x_fit": (np.float64, "column [pixel], centres at integers from 0"),
    "y_fit": (np.float64, "row [pixel], centres at integers from 0"),
    "x_err": (np.float64, "standard error of x_fit [pixel]"),
    "y_err": (np.float64, "standard error of y_fit [pixel]"),
    "sigma_fit": (np.float64, "width of a Gaussian source [pixel]; NaN for another PSF"),
    "flux_fit": (np.float64, "flux [sum of pixel values]"),
    "flux_err": (np.float64, "standard error of flux_fit"),
    "snr": (np.float64, "flux_fit / flux_err"),
    "group_id": (np.int64, "sources with one number were fitted together"),
    "nn_dist": (np.float64, "distance to the nearest neighbour [pixel]; infinite without any"),
    "qfit": (np.float64, "sum of absolute residuals over the fit region / flux_fit"),
    "cfit": (np.float64, "residual of the central pixel / flux_fit"),
    "flags": (np.int64, "sum of SourceFlag values"),
}
"""Names, types and meanings of a catalogue's columns."""


class SourceFlag(enum.IntFlag):
    """Bits of the column `flags`.

    Examples
    --------
    >>> int(SourceFlag.EDGE | SourceFlag.BLENDED)
    5
    """

    EDGE = 1
    """The fit region reaches over the edge of the image."""
    MASKED = 2
    """Some pixels of the fit region were masked."""
    BLENDED = 4
    """Another source overlaps."""
    NOT_CONVERGED = 8
    """The refinement stopped before it was stable."""
    AT_BOUND = 16
    """A parameter ended on the limit set for it."""
    NO_COVARIANCE = 32
    """The errors could not be determined."""


def empty_table() -> Any:
    """Return a catalogue table without rows: every column is there, with its type and meaning.

    Returns
    -------
    astropy.table.QTable
        The table.

    Examples
    --------
    >>> table = empty_table()
    >>> len(table), table.colnames[:3], str(table["id"].dtype)
    (0, ['id', 'x_fit', 'y_fit'], 'int64')
    """
    return _describe(
        optional_import("astropy.table", "A catalogue").QTable(
            {name: np.empty(0, dtype=kind) for name, (kind, _) in COLUMNS.items()}
        )
    )


def _describe(table: Any) -> Any:
    """Write the meaning of the columns, and the pixel convention, into the table."""
    for name, (_, meaning) in COLUMNS.items():
        table[name].info.description = meaning
    table.meta.setdefault("coordinates", COORDINATES)
    return table


@dataclass(frozen=True, eq=False, repr=False)
class SourceCatalog(Brief):
    """Found sources.

    Attributes
    ----------
    table : astropy.table.QTable
        One row per source, with the columns of `COLUMNS` (positions and widths in pixels, as plain numbers);
        `ra` and `dec` in degrees when a WCS was given; possibly `frame` (from 0) for stacks.
    model, residual, significance : ndarray of shape (height, width) or None
        The fitted image; image minus model; residual in units of the noise. None for a catalogue from a file.
    meta : dict
        Anything else worth keeping, such as `noise_variance` and `background`.

    Examples
    --------
    >>> catalog = SourceCatalog.from_columns(x_fit=[3.0, 7.5], y_fit=[2.0, 2.0], flux_fit=[100.0, 40.0])
    >>> len(catalog), catalog.table["nn_dist"][0]
    (2, np.float64(4.5))
    """

    table: Any
    model: FloatArray | None = None
    residual: FloatArray | None = None
    significance: FloatArray | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the table has all columns."""
        missing = [name for name in COLUMNS if name not in self.table.colnames]
        if missing:
            raise ValueError(f"table must have the columns of a catalogue; missing: {', '.join(missing)}")

    def __len__(self) -> int:
        """Return the number of sources."""
        return len(self.table)

    @property
    def xy(self) -> FloatArray:
        """Positions as an array of shape (n, 2)."""
        return np.column_stack([np.asarray(self.table[name], dtype=np.float64) for name in ("x_fit", "y_fit")])

    @classmethod
    def from_columns(
        cls,
        *,
        model: FloatArray | None = None,
        residual: FloatArray | None = None,
        significance: FloatArray | None = None,
        meta: dict[str, Any] | None = None,
        wcs: Any = None,
        **columns: Any,
    ) -> SourceCatalog:
        """Build a catalogue from arrays, filling in what is not given.

        Parameters
        ----------
        model, residual, significance, meta
            As the attributes.
        wcs : astropy.wcs.WCS, optional
            Adds `ra` and `dec`.
        **columns : array of shape (n,)
            At least `x_fit` and `y_fit`. Of the others `id` becomes 1..n, `group_id` a number for each
            source, `nn_dist` is computed, `snr` is the quotient, `flags` is 0 and the rest NaN. Names that
            are not in `COLUMNS` are added at the end.

        Returns
        -------
        SourceCatalog
            The catalogue.

        Examples
        --------
        >>> SourceCatalog.from_columns(x_fit=[], y_fit=[]).table["flux_fit"].dtype
        dtype('float64')
        """
        from fastsbl.imaging.metrics import nearest_distance

        for name in ("x_fit", "y_fit"):
            if name not in columns:
                raise ValueError(f"columns must include {name}")
        n = np.asarray(columns["x_fit"]).shape[0]
        given = {name: np.asarray(values) for name, values in columns.items()}
        for name, values in given.items():
            if values.shape != (n,):
                raise ValueError(f"{name} must have shape ({n},) like x_fit; got {values.shape}")
        count = np.arange(1, n + 1)
        given.setdefault("id", count)
        given.setdefault("group_id", count)
        given.setdefault("flags", np.zeros(n, dtype=np.int64))
        if "nn_dist" not in given:
            given["nn_dist"] = _nearest_per_frame(given, nearest_distance)
        if "snr" not in given and {"flux_fit", "flux_err"} <= given.keys():
            error = given["flux_err"].astype(np.float64)
            flux = given["flux_fit"].astype(np.float64)
            given["snr"] = np.divide(flux, error, out=np.full(n, np.nan), where=error > 0)
        table = empty_table()[:0]
        full: dict[str, Any] = {
            name: given.pop(name, np.full(n, np.nan)).astype(kind) for name, (kind, _) in COLUMNS.items()
        }
        table = _describe(type(table)({**full, **given}, meta=dict(table.meta)))
        if wcs is not None:
            add_sky_coordinates(table, wcs)
        return cls(table, model, residual, significance, {} if meta is None else dict(meta))

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        format: Format | None = None,
        pixel_size: float | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write the table, whole or not at all.

        Parameters
        ----------
        path : path-like
            Ends in `.ecsv` (everything kept), `.fits` or `.csv` (names and numbers only).
        format : {"ecsv", "fits", "csv", "thunderstorm"}, optional
            By default from the name. "thunderstorm" is the CSV of ThunderSTORM, in nanometres; see
            `read_catalog`.
        pixel_size : float, optional
            Size of a pixel in nm, for "thunderstorm".
        overwrite : bool, default False
            Whether an existing file may be replaced.

        Returns
        -------
        Path
            Where the table is.

        Examples
        --------
        >>> import tempfile
        >>> catalog = SourceCatalog.from_columns(x_fit=[3.0], y_fit=[2.0])
        >>> path = catalog.write(Path(tempfile.mkdtemp()) / "found.ecsv")
        >>> len(read_catalog(path))
        1
        """
        file = Path(path)
        kind = _format_of(file, format)
        with atomic_path(file, overwrite=overwrite) as temporary:
            if kind == "thunderstorm":
                _thunderstorm.write(temporary, self.table, pixel_size, self.meta)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of meta entries that a format cannot hold
                    astropy_name = {"ecsv": "ascii.ecsv", "csv": "ascii.csv", "fits": "fits"}[kind]
                    self.table.write(temporary, format=astropy_name, overwrite=True)
        return file


def _nearest_per_frame(given: dict[str, Any], nearest: Any) -> FloatArray:
    """Distance to the nearest source of the same frame."""
    xy = np.column_stack([given["x_fit"], given["y_fit"]]).astype(np.float64)
    frames = given.get("frame", np.zeros(xy.shape[0], dtype=np.int64))
    out = np.empty(xy.shape[0])
    for frame in np.unique(frames):
        out[frames == frame] = nearest(xy[frames == frame])
    return out


def add_sky_coordinates(table: Any, wcs: Any) -> Any:
    """Add ICRS `ra` and `dec` in degrees for `x_fit`, `y_fit`, in place.

    Parameters
    ----------
    table : astropy.table.QTable
        A catalogue table.
    wcs : astropy.wcs.WCS
        Celestial coordinates of the image; one without celestial axes is passed over with a word in the log.

    Returns
    -------
    astropy.table.QTable
        The same table.

    Examples
    --------
    >>> from astropy.wcs import WCS
    >>> wcs = WCS(naxis=2)
    >>> wcs.wcs.ctype = "RA---TAN", "DEC--TAN"
    >>> table = add_sky_coordinates(empty_table(), wcs)
    >>> table.colnames[-2:], str(table["ra"].unit)
    (['ra', 'dec'], 'deg')
    """
    units = optional_import("astropy.units", "Sky coordinates")
    if not wcs.has_celestial:
        logger.warning("the WCS has no celestial axes; ra and dec are not added")
        return table
    if len(table) == 0:
        ra = dec = np.empty(0)
    else:
        sky = wcs.celestial.pixel_to_world(
            np.asarray(table["x_fit"], dtype=np.float64), np.asarray(table["y_fit"], dtype=np.float64)
        ).icrs
        ra, dec = sky.ra.deg, sky.dec.deg
    table["ra"] = np.array(ra) * units.deg
    table["dec"] = np.array(dec) * units.deg
    for name, meaning in (("ra", "right ascension, ICRS"), ("dec", "declination, ICRS")):
        table[name].info.description = meaning
    return table


def read_catalog(
    path: str | os.PathLike[str], *, format: Format | None = None, pixel_size: float | None = None
) -> SourceCatalog:
    """Read a catalogue from ECSV, FITS, CSV or the CSV of ThunderSTORM.

    ThunderSTORM's columns are `frame`, `x [nm]`, `y [nm]`, `sigma [nm]`, `intensity [photon]`,
    `offset [photon]`, `bkgstd [photon]`, `uncertainty [nm]`, with parentheses for the brackets accepted too.
    There x = 0 is the outer edge of the first pixel, so pixel = nm / pixel_size - 0.5; frames count from 1
    there and from 0 here. Offset and bkgstd become the columns `local_bkg` and `bkg_std`. Numbers are taken
    as they are, without a conversion between counts and photons.

    Parameters
    ----------
    path : path-like
        The file.
    format : {"ecsv", "fits", "csv", "thunderstorm"}, optional
        By default from the name; a CSV with a column `x [nm]` is ThunderSTORM's.
    pixel_size : float, optional
        Size of a pixel in nm, needed for ThunderSTORM's files.

    Returns
    -------
    SourceCatalog
        Without images.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "molecules.csv"
    >>> catalog = SourceCatalog.from_columns(x_fit=[3.0], y_fit=[2.0], flux_fit=[900.0], sigma_fit=[1.1])
    >>> _ = catalog.write(path, format="thunderstorm", pixel_size=100.0)
    >>> read_catalog(path, pixel_size=100.0).xy
    array([[3., 2.]])
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {file}")
    kind = _format_of(file, format)
    if kind == "thunderstorm" or (kind == "csv" and format is None and _thunderstorm.recognise(file)):
        return SourceCatalog.from_columns(**_thunderstorm.read(file, pixel_size))
    table_class = optional_import("astropy.table", "Reading a catalogue").QTable
    astropy_name = {"ecsv": "ascii.ecsv", "csv": "ascii.csv", "fits": "fits"}[kind]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"fill_values": [("nan", "nan")]} if kind == "csv" else {}
            table = table_class.read(file, format=astropy_name, **options)
    except (OSError, ValueError, TypeError, IndexError, KeyError) as error:
        raise ValueError(f"{file} could not be read as a table of kind {kind} (damaged?): {error}") from error
    missing = [name for name in COLUMNS if name not in table.colnames]
    if missing:
        raise ValueError(f"{file} is not a catalogue; missing columns: {', '.join(missing)}")
    for name, (dtype, _) in COLUMNS.items():
        table[name] = np.array(table[name], dtype=dtype)
    if {"ra", "dec"} <= set(table.colnames):  # CSV has lost the unit, FITS the byte order
        degree = optional_import("astropy.units", "Sky coordinates").deg
        for name in ("ra", "dec"):
            values = np.array(getattr(table[name], "value", table[name]), dtype=np.float64)
            table[name] = values * degree
    return SourceCatalog(_describe(table))


def _format_of(file: Path, format: Format | None) -> Format:
    by_name: dict[str, Format] = {".ecsv": "ecsv", ".fits": "fits", ".fit": "fits", ".csv": "csv"}
    if format is None:
        if suffix_of(file) not in by_name:
            raise ValueError(f"path must end in .ecsv, .fits or .csv, or format be given; got {file.name}")
        return by_name[suffix_of(file)]
    if format not in ("ecsv", "fits", "csv", "thunderstorm"):
        raise ValueError(f'format must be "ecsv", "fits", "csv" or "thunderstorm"; got {format!r}')
    return format
