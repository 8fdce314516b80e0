"""Checks of what a user passes in: each error names the parameter, what was expected and what came."""

import numbers
from typing import Any

import numpy as np

from fastsbl._base.types import Array, FloatArray


def check_positive_number(value: Any, name: str, *, zero: str | None = None) -> float:
    """Return ``value`` as a finite float above zero; ``zero`` says why 0 is refused."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number above 0, got {type(value).__name__}: {value!r}")
    number = float(value)
    if not np.isfinite(number) or number < 0 or (number == 0):
        because = f" ({zero})" if zero and number == 0 else ""
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}{because}")
    return number


def check_whole_number(value: Any, name: str, *, least: int = 1) -> int:
    """Return ``value`` as an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number of at least {least}, got {type(value).__name__}: {value!r}")
    if value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}: {value!r}")
    return bool(value)


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")
    return value


def check_learn(lam: str) -> None:
    """Refuse every word but the one that stands for a learned noise variance."""
    if lam != "learn":
        raise ValueError(f"lam must be a number above 0 or 'learn', got {lam!r}")


def as_numbers(value: Any, name: str) -> Array:
    """Return ``value`` as a float or complex array; integers and booleans are converted."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            f"{name} must not have masked values, got {np.count_nonzero(np.ma.getmaskarray(value))} of them"
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array with rows of equal length: {error}") from error
    if array.dtype.kind in "bui":
        return array.astype(np.float64)
    if array.dtype.kind not in "fc":
        raise TypeError(f"{name} must hold real or complex numbers, got dtype {array.dtype}")
    if array.dtype == np.clongdouble:
        return array.astype(np.complex128)
    if array.dtype == np.float16 or array.dtype == np.longdouble:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_target(y: Any, n_samples: int, name: str = "y", *, columns: bool = True) -> Array:
    """Return the target as (N,) or, if ``columns`` allows it, (N, L), float64 or complex128 and finite."""
    array = as_numbers(y, name)
    expected = f"({n_samples},)" + (f" or ({n_samples}, L)" if columns else "")
    if array.ndim not in ((1, 2) if columns else (1,)) or array.shape[0] != n_samples:
        raise ValueError(f"{name} must have shape {expected} to match the dictionary's rows, got {array.shape}")
    if array.ndim == 2 and array.shape[1] == 0:
        raise ValueError(f"{name} must have shape {expected} with L >= 1, got {array.shape}")
    array = np.ascontiguousarray(array, dtype=np.complex128 if array.dtype.kind == "c" else np.float64)
    largest = float(np.abs(array).max())
    if not largest <= 1e150:  # NaN counts as such
        bad = np.count_nonzero(~np.isfinite(array))
        if bad:
            raise ValueError(f"{name} must be finite, got {bad} NaN or infinite values")
        raise ValueError(f"{name} must stay below 1e150, since its square is needed, got {largest:.3g}; rescale it")
    return array


def check_weights(weights: Any, n_features: int, name: str = "weights") -> FloatArray:
    """Return the feature weights as float64 (n,): 0 is unpenalised, inf is excluded, None is all ones."""
    if weights is None:
        return np.ones(n_features)
    array = as_numbers(weights, name)
    if array.shape != (n_features,) or array.dtype.kind == "c":
        raise ValueError(
            f"{name} must be a real array of shape ({n_features},), one per column of the dictionary, "
            f"got shape {array.shape} and dtype {array.dtype}"
        )
    array = array.astype(np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{name} must not be NaN, got {np.count_nonzero(np.isnan(array))} of them")
    if (array < 0).any():
        raise ValueError(
            f"{name} must be at least 0 (0 = unpenalised, inf = excluded), got a smallest of {float(array.min())!r}"
        )
    return array


def check_coefficients(coef: Any, n_features: int, name: str) -> Array:
    """Return coefficients as a finite (n,) or (n, L) array."""
    array = as_numbers(coef, name)
    if array.ndim not in (1, 2) or array.shape[0] != n_features:
        raise ValueError(
            f"{name} must have {n_features} rows, one per column of the dictionary, got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinite values")
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
