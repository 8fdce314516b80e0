"""Stacks of frames: one catalogue of all, frames in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from fastsbl.imaging._checks import check_jobs, check_positive
from fastsbl.imaging.catalog import COLUMNS, SourceCatalog
from fastsbl.imaging.io import ImageData, iter_frames
from fastsbl.imaging.localize import locate_sources
from fastsbl.imaging.psf import PSF

__all__ = ["locate_stack"]


def locate_stack(
    frames: str | os.PathLike[str] | Iterable[Any],
    psf: PSF | None = None,
    noise_variance: Any = None,
    *,
    n_jobs: int = 1,
    pixel_size: float | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> SourceCatalog:
    """Find the point sources of every frame of a stack.

    Each frame is searched by itself, as by `locate_sources`; few frames are in memory at a time.

    Parameters
    ----------
    frames : path-like, array of shape (frames, height, width), or iterable of images
        A file (TIFF or ImageJ stack, FITS cube, NPY; see `iter_frames`), an array, or the frames one after the other
        as arrays or `ImageData`.
    psf, noise_variance
        As in `locate_sources`, the same for all frames.
    n_jobs : int, default 1
        Processes (joblib's meaning); the catalogue is the same for any number.
    pixel_size : float, optional
        Size of a pixel in nm; adds the columns `x_nm` and `y_nm`, measured from the outer corner of the first pixel
        as in ThunderSTORM.
    progress : callable, optional
        Called with the number of frames done.
    **options
        Passed on to `locate_sources`.

    Returns
    -------
    SourceCatalog
        All sources, in the order of the frames. Three columns more: `frame` (from 0), and of the frame `local_bkg`
        and `bkg_std`, the constant under the sources and the standard deviation of the noise, where they are single
        numbers. `group_id` counts on through the frames. No images. ``write(path, format="thunderstorm",
        pixel_size=...)`` writes the table for ThunderSTORM.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.imaging import GaussianPSF, make_starfield
    >>> psf = GaussianPSF(1.1)
    >>> stack = np.stack(
    ...     [make_starfield((20, 20), 2, psf=psf, noise_variance=1e-4, rng=k).image for k in range(3)]
    ... )
    >>> locate_stack(stack, psf).table["frame"].tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if pixel_size is not None:
        pixel_size = check_positive("pixel_size", pixel_size)
    for name in ("progress", "wcs"):
        if name in options:
            raise TypeError(f"{name} is not an option for the frames of a stack")
    pieces: list[dict[str, Any]] = []
    parallel = Parallel(n_jobs=check_jobs(n_jobs), return_as="generator", pre_dispatch="2*n_jobs")
    tasks = (delayed(_one)(number, image, psf, noise_variance, options) for number, image in _numbered(frames))
    for piece in parallel(tasks):
        pieces.append(piece)
        if progress is not None:
            progress(len(pieces))
    columns: dict[str, Any] = {}
    if pieces:
        last = 0
        for piece in pieces:
            piece["group_id"] = piece["group_id"] + last
            last = int(piece["group_id"].max(initial=last))
        columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    else:
        columns = {name: np.empty(0, dtype=kind) for name, (kind, _) in COLUMNS.items() if name != "id"}
        columns["frame"] = np.empty(0, dtype=np.int64)
    if pixel_size is not None:
        for axis in "xy":
            columns[f"{axis}_nm"] = (columns[f"{axis}_fit"] + 0.5) * pixel_size
    catalog = SourceCatalog.from_columns(meta={"n_frames": len(pieces)}, **columns)
    catalog.table["frame"].info.description = "frame, from 0"
    catalog.table.meta["n_frames"] = len(pieces)
    return catalog


def _numbered(frames: Any) -> Iterator[tuple[int, Any]]:
    """Frames with their numbers."""
    if isinstance(frames, str | os.PathLike):
        source: Iterable[Any] = iter_frames(frames)
    elif isinstance(frames, np.ndarray):
        if frames.ndim != 3:
            raise ValueError(f"frames must be an array of shape (frames, height, width); got shape {frames.shape}")
        source = frames
    else:
        source = frames
    for number, frame in enumerate(source):
        yield number, frame.array if isinstance(frame, ImageData) else frame


def _one(number: int, image: Any, psf: PSF | None, noise_variance: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Columns of one frame."""
    try:
        catalog = locate_sources(image, psf, noise_variance, **options)
    except (ValueError, TypeError) as error:
        raise type(error)(f"frame {number}: {error}") from error
    table = catalog.table
    out = {name: np.asarray(table[name]) for name in table.colnames if name != "id"}
    size = len(table)
    out["frame"] = np.full(size, number, dtype=np.int64)

    def single(value: Any) -> float:
        return float(value) if value is not None and np.ndim(value) == 0 else float("nan")

    out["local_bkg"] = np.full(size, single(catalog.meta.get("background")))
    out["bkg_std"] = np.full(size, np.sqrt(single(catalog.meta.get("noise_variance"))))
    return out
