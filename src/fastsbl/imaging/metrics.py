"""How well found sources agree with true ones, and a reconstructed image with the original.

Positions are arrays of shape (n, 2) with columns x and y, in any one unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.types import FloatArray, IntArray
from fastsbl.imaging._assignment import assign
from fastsbl.imaging._checks import check_finite, check_points
from fastsbl.imaging.matching import (
    CompletenessPurity,
    SourceMatch,
    completeness_purity,
    match_sources,
    near_pairs,
    nearest_distance,
)

__all__ = [
    "CompletenessPurity",
    "SourceMatch",
    "completeness_purity",
    "group_iou",
    "iou",
    "match_sources",
    "matched_iou",
    "nearest_distance",
    "psnr",
]


def _box(box: float | Sequence[float]) -> tuple[float, float]:
    sides = np.asarray(box, dtype=np.float64)
    if sides.shape not in ((), (2,)) or not np.all(np.isfinite(sides) & (sides > 0)):
        raise ValueError(f"box must be a side or a pair (width, height), above 0; got {box!r}")
    width, height = np.broadcast_to(sides, (2,))
    return float(width), float(height)


def _overlap(shift: FloatArray, box: tuple[float, float]) -> FloatArray:
    """IoU of equal boxes whose centres are `shift` (..., 2) apart."""
    width, height = box
    shared = np.maximum(0.0, width - np.abs(shift[..., 0])) * np.maximum(0.0, height - np.abs(shift[..., 1]))
    return np.asarray(shared / (2.0 * width * height - shared))


def iou(xy1: ArrayLike, xy2: ArrayLike, box: float | Sequence[float] = 3) -> float | FloatArray:
    """Intersection over union of equal axis-parallel boxes centred on two points.

    Parameters
    ----------
    xy1, xy2 : array of shape (..., 2)
        Centres; leading axes are broadcast.
    box : float or (width, height), default 3
        Size of the boxes.

    Returns
    -------
    float or ndarray of shape (...)
        Between 0 and 1; a float for two single points.

    Examples
    --------
    >>> iou((0.0, 0.0), (1.0, 0.0), box=3)
    0.5
    """
    first, second = check_finite("xy1", xy1), check_finite("xy2", xy2)
    for name, value in (("xy1", first), ("xy2", second)):
        if value.ndim == 0 or value.shape[-1] != 2:
            raise ValueError(f"{name} must have x and y along its last axis; got shape {value.shape}")
    out = _overlap(first - second, _box(box))
    return float(out) if out.ndim == 0 else out


def _overlapping_pairs(
    found: FloatArray, true: FloatArray, box: tuple[float, float]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Pairs (found, true) whose boxes meet, and their IoU."""
    scaled_found, scaled_true = found / box, true / box
    i, j, _ = near_pairs(scaled_found, scaled_true, 1.0, p=np.inf)
    score = _overlap(found[i] - true[j], box)
    keep = score > 0
    return i[keep], j[keep], score[keep]


def group_iou(found_xy: ArrayLike, true_xy: ArrayLike, box: float | Sequence[float] = 3) -> float:
    """Mean best overlap of the larger group with the other: the paper's group-IoU.

    With m detections and n truths: for m > n the mean over detections of the best IoU with any truth,
    otherwise the mean over truths of the best IoU with any detection. Nothing found and nothing there is 1;
    only one of the two empty is 0. Partners may be used twice, so missed truths go unpunished when m > n;
    `matched_iou` is the companion without that defect, and is never larger.

    Parameters
    ----------
    found_xy, true_xy : array of shape (m, 2), (n, 2)
        Positions.
    box : float or (width, height), default 3
        Size of the boxes; the value depends on it, so state it.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> truth = [[5.0, 5.0], [15.0, 5.0], [5.0, 15.0]]
    >>> group_iou([[5.0, 5.0]] * 4, truth), matched_iou([[5.0, 5.0]] * 4, truth)
    (1.0, 0.25)
    """
    found, true, sides = check_points("found_xy", found_xy), check_points("true_xy", true_xy), _box(box)
    m, n = found.shape[0], true.shape[0]
    if m == 0 or n == 0:
        return 1.0 if m == n else 0.0
    i, j, score = _overlapping_pairs(found, true, sides)
    best = np.zeros(max(m, n))
    np.maximum.at(best, i if m > n else j, score)
    return float(best.mean())


def matched_iou(found_xy: ArrayLike, true_xy: ArrayLike, box: float | Sequence[float] = 3) -> float:
    """Sum of IoU under the best one-to-one matching, divided by the larger number of sources.

    Parameters
    ----------
    found_xy, true_xy : array of shape (m, 2), (n, 2)
        Positions.
    box : float or (width, height), default 3
        Size of the boxes.

    Returns
    -------
    float
        Between 0 and 1; 1 when both are empty, 0 when one is.

    Examples
    --------
    >>> matched_iou([[1.0, 1.0]], [[1.0, 1.0], [9.0, 9.0]])
    0.5
    """
    found, true, sides = check_points("found_xy", found_xy), check_points("true_xy", true_xy), _box(box)
    m, n = found.shape[0], true.shape[0]
    if m == 0 or n == 0:
        return 1.0 if m == n else 0.0
    i, j, score = _overlapping_pairs(found, true, sides)
    chosen = assign(i, j, -score, (m, n), 0.0)
    return float(score[chosen].sum() / max(m, n))


def psnr(original: ArrayLike, reconstructed: ArrayLike) -> float:
    """Peak signal-to-noise ratio in dB, with the peak of the original.

    ``20 log10(max(original)) - 10 log10(mean((original - reconstructed)^2))``; the original is the
    clean image.

    Parameters
    ----------
    original, reconstructed : array of the same shape
        Images without NaN.

    Returns
    -------
    float
        Infinity when the two are equal.

    Examples
    --------
    >>> round(psnr([[0.0, 1.0]], [[0.1, 1.1]]), 6)
    20.0
    """
    first, second = check_finite("original", original), check_finite("reconstructed", reconstructed)
    if first.shape != second.shape or first.size == 0:
        raise ValueError(
            f"original and reconstructed must have one shape, not empty; got {first.shape} and {second.shape}"
        )
    error = float(np.mean((first - second) ** 2))
    if error == 0.0:
        return float("inf")
    peak = float(first.max())
    if peak <= 0:
        raise ValueError(f"original must have a maximum above 0; got {peak:g}")
    return float(20.0 * np.log10(peak) - 10.0 * np.log10(error))
