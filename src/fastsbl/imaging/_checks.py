"""Checks of arguments: each error names the parameter, what was expected and what came."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from fastsbl._base.types import FloatArray


def optional_import(module: str, purpose: str, package: str | None = None) -> Any:
    """Import an optional module, or say which pip line brings it.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    purpose : str
        What needs it, as the beginning of a sentence.
    package : str, optional
        Name of the package to show; by default the first part of `module`.

    Returns
    -------
    module
        The imported module.

    Examples
    --------
    >>> optional_import("math", "This example").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = package if package is not None else module.split(".")[0]
        raise ImportError(f'{purpose} needs {name}, which is not installed: pip install "fastsbl[apps]"') from error


def check_numbers(name: str, value: Any) -> FloatArray:
    """Return `value` as an array of floats, of any shape."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must hold real numbers; got {value!r}") from error


def check_jobs(n_jobs: int) -> int:
    """Return `n_jobs` unless it is 0, which means nothing to joblib."""
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of processes, or negative to count from all cores; got 0")
    return n_jobs


def check_positive(name: str, value: float, *, allow_zero: bool = False) -> float:
    """Return `value` as a finite float above zero (or from zero)."""
    array = check_numbers(name, value)
    number = float(array) if array.ndim == 0 else math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not allow_zero):
        kind = "at least 0" if allow_zero else "above 0"
        raise ValueError(f"{name} must be a finite number {kind}; got {value!r}")
    return number


def check_range(name: str, value: Sequence[float], *, low: float = 0.0) -> tuple[float, float]:
    """Return `value` as a pair (lower, upper) of finite floats with low < lower <= upper."""
    pair = check_numbers(name, value)
    if pair.shape != (2,) or not np.all(np.isfinite(pair)) or not low < pair[0] <= pair[1]:
        raise ValueError(f"{name} must be a pair (lower, upper) with {low} < lower <= upper; got {value!r}")
    return float(pair[0]), float(pair[1])


def check_shape(name: str, value: Sequence[SupportsIndex], *, ndim: int = 2, minimum: int = 1) -> tuple[int, ...]:
    """Return `value` as a tuple of `ndim` whole numbers, each at least `minimum`."""
    try:
        sizes = tuple(int(np.asarray(size).__index__()) for size in value)
    except TypeError:
        sizes = ()
    if len(sizes) != ndim or min(sizes) < minimum:
        raise ValueError(f"{name} must be a tuple of {ndim} whole numbers, each at least {minimum}; got {value!r}")
    return sizes


def check_count(name: str, value: SupportsIndex, *, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`."""
    try:
        count = int(np.asarray(value).__index__())
    except TypeError:
        count = minimum - 1
    if count < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}; got {value!r}")
    return count


def check_fraction(name: str, value: float) -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = float(value)
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1; got {value!r}")
    return number


def check_points(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a finite float array of shape (n, 2); an empty list has n = 0."""
    points = check_numbers(name, value)
    if points.size == 0:
        return np.empty((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"{name} must be an array of shape (n, 2) with columns x and y; got shape {points.shape}")
    if not np.all(np.isfinite(points)):
        raise ValueError(f"{name} must hold finite coordinates; got NaN or infinity")
    return points


def check_finite(name: str, value: ArrayLike) -> FloatArray:
    """Return `value` as a float array without NaN and infinity."""
    array = check_numbers(name, value)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got NaN or infinity")
    return array
