"""The CSV of ThunderSTORM: one row per molecule, in nanometres, frames from 1."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from fastsbl._base.types import FloatArray
from fastsbl.imaging._checks import check_positive
from fastsbl.imaging._files import open_text

HEADER = (
    "frame",
    "x [nm]",
    "y [nm]",
    "sigma [nm]",
    "intensity [photon]",
    "offset [photon]",
    "bkgstd [photon]",
    "uncertainty [nm]",
)

_ALIASES = {
    "frame": "frame",
    "x": "x",
    "y": "y",
    "sigma": "sigma",
    "intensity": "intensity",
    "offset": "offset",
    "bkgstd": "bkgstd",
    "bkgsd": "bkgstd",
    "uncertainty": "uncertainty",
    "uncertainty_xy": "uncertainty",
}
_NM = ("x", "y", "sigma", "uncertainty")


def _key(name: str) -> tuple[str, str]:
    """Split a heading such as `x [nm]` or `Intensity (photons)` into the quantity and its unit."""
    plain = name.strip().lower().replace("(", "[").rstrip(")]")
    quantity, _, unit = plain.partition("[")
    return _ALIASES.get(quantity.strip(), ""), unit.strip()


def recognise(path: Path) -> bool:
    """Whether the first line of a CSV has positions in nanometres."""
    with open_text(path) as file:
        headings = next(csv.reader(file), [])
    return ("x", "nm") in [_key(name) for name in headings]


def read(path: Path, pixel_size: float | None) -> dict[str, Any]:
    """Columns of a catalogue, in pixels and with frames from 0.

    Parameters
    ----------
    path : Path
        The file.
    pixel_size : float
        Size of a pixel in nm.

    Returns
    -------
    dict of ndarray
        Arguments of `SourceCatalog.from_columns`.
    """
    size = _size(pixel_size)
    try:
        with open_text(path) as file:
            reader = csv.reader(file)
            headings = [_key(name) for name in next(reader, [])]
            rows = [row for row in reader if row]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} could not be read as a ThunderSTORM table: {error}") from error
    where = {quantity: place for place, (quantity, _) in enumerate(headings) if quantity}
    for place, (quantity, unit) in enumerate(headings):
        if quantity in _NM and unit != "nm":
            raise ValueError(f"column {place + 1} of {path} must be in nm; got unit {unit!r}")
    for needed in ("x", "y"):
        if needed not in where:
            raise ValueError(f"{path} is not a ThunderSTORM table: it has no column '{needed} [nm]'")
    n = len(rows)

    def column(quantity: str) -> FloatArray:
        if quantity not in where:
            return np.full(n, np.nan)
        place = where[quantity]
        try:
            return np.array([float(row[place]) for row in rows], dtype=np.float64)
        except IndexError as error:
            raise ValueError(f"{path} is damaged: a row ends before column {place + 1}") from error
        except ValueError as error:
            raise ValueError(f"{path} is damaged: column {place + 1} is not all numbers ({error})") from error

    uncertainty = column("uncertainty") / size
    out: dict[str, Any] = {
        "x_fit": column("x") / size - 0.5,
        "y_fit": column("y") / size - 0.5,
        "x_err": uncertainty,
        "y_err": uncertainty,
        "sigma_fit": column("sigma") / size,
        "flux_fit": column("intensity"),
        "local_bkg": column("offset"),
        "bkg_std": column("bkgstd"),
    }
    if "frame" in where:
        out["frame"] = column("frame").astype(np.int64) - 1
    return out


def write(path: Path, table: Any, pixel_size: float | None, meta: dict[str, Any]) -> None:
    """Write a catalogue table; what it does not hold is NaN.

    Parameters
    ----------
    path : Path
        Where to write.
    table : astropy.table.QTable
        A catalogue table; `frame`, `local_bkg` and `bkg_std` are used if they are there.
    pixel_size : float
        Size of a pixel in nm.
    meta : dict
        Scalars `background` and `noise_variance` stand in for `local_bkg` and `bkg_std`.
    """
    size = _size(pixel_size)
    n = len(table)

    def column(name: str, default: float) -> FloatArray:
        if name in table.colnames:
            return np.asarray(table[name], dtype=np.float64)
        return np.full(n, default)

    def scalar(name: str) -> float:
        value = meta.get(name, np.nan)
        return float(value) if np.ndim(value) == 0 and value is not None else np.nan

    uncertainty = np.sqrt((column("x_err", np.nan) ** 2 + column("y_err", np.nan) ** 2) / 2)
    columns = (
        (column("x_fit", np.nan) + 0.5) * size,
        (column("y_fit", np.nan) + 0.5) * size,
        column("sigma_fit", np.nan) * size,
        column("flux_fit", np.nan),
        column("local_bkg", scalar("background")),
        column("bkg_std", float(np.sqrt(scalar("noise_variance")))),
        uncertainty * size,
    )
    frames = column("frame", 0.0).astype(np.int64) + 1
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONE, lineterminator="\n")
        file.write(",".join(f'"{name}"' for name in HEADER) + "\n")
        for k in range(n):
            writer.writerow([int(frames[k]), *(repr(float(values[k])) for values in columns)])


def _size(pixel_size: float | None) -> float:
    if pixel_size is None:
        raise ValueError("pixel_size must be given (nm per pixel) for ThunderSTORM tables; got None")
    return check_positive("pixel_size", pixel_size)
