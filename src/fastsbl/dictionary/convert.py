"""From what users have to a `Dictionary`."""

import logging
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from fastsbl._base.checks import as_numbers
from fastsbl.dictionary.base import Dictionary
from fastsbl.dictionary.dense import DenseDictionary
from fastsbl.dictionary.operator import OperatorDictionary
from fastsbl.dictionary.row_sparse import RowSparseDictionary
from fastsbl.dictionary.sparse import SparseDictionary

__all__ = ["as_dictionary"]

_log = logging.getLogger(__name__)


def as_dictionary(X: Any, *, norms: Any = None, gram_cache_bytes: int = 2**28) -> Dictionary:
    """Make a `Dictionary` of an array, data frame, sparse matrix, memory map or linear operator.

    float32, float64, complex64 and complex128 arrays are used as they lie in memory, memory maps
    included; integers and booleans are converted to float64. So are real CSC and CSR matrices; COO and
    other sparse formats, and complex CSR, are converted to CSC, with a word in the log. A `Dictionary` is
    returned unchanged.

    Parameters
    ----------
    X : array-like, sparse matrix, LinearOperator or Dictionary of shape (N, n)
        One row per sample, one column per feature.
    norms : array of shape (n,), optional
        Euclidean norms of the columns, if known; saves one read, and much more for operators.
    gram_cache_bytes : int
        Room for cached Gram columns (256 MiB by default).

    Returns
    -------
    Dictionary
        Answers `column_norms`, `correlate`, `columns` and `gram`, and counts `passes`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsbl.dictionary import as_dictionary
    >>> phi = as_dictionary(np.array([[3.0, 0.0], [4.0, 2.0]]))
    >>> phi.column_norms()
    array([5., 2.])
    >>> phi.correlate(np.array([1.0, 1.0]))
    array([7., 2.])
    >>> phi.passes
    2.0
    """
    if isinstance(X, Dictionary):
        if norms is not None:
            raise ValueError("norms must be given when the Dictionary is made, not for one that exists")
        return X
    dictionary = _convert(X, gram_cache_bytes)
    if norms is not None:
        given = as_numbers(norms, "norms")
        if given.shape != (dictionary.n_features,) or given.dtype.kind == "c" or not (given >= 0).all():
            raise ValueError(
                f"norms must be {dictionary.n_features} real numbers of at least 0, one per column, "
                f"got shape {given.shape}"
            )
        dictionary._set_norms(given.astype(np.float64) ** 2)
    return dictionary


def _convert(X: Any, gram_cache_bytes: int) -> Dictionary:
    if sparse.issparse(X):
        return _convert_sparse(X, gram_cache_bytes)
    if isinstance(X, LinearOperator) or (hasattr(X, "rmatvec") and hasattr(X, "matmat")):
        _check_shape(X.shape)
        return OperatorDictionary(X, gram_cache_bytes=gram_cache_bytes)
    if (
        hasattr(X, "sparse")
        and hasattr(X, "dtypes")
        and len(X.dtypes)
        and all(hasattr(kind, "fill_value") for kind in X.dtypes)
    ):
        return _convert(X.sparse.to_coo(), gram_cache_bytes)
    array = as_numbers(X, "dictionary")
    _check_shape(array.shape)
    if not (array.flags.f_contiguous or array.flags.c_contiguous):
        _log.info("copying a strided view of the dictionary into column-major order")
        array = np.asfortranarray(array)
    return DenseDictionary(np.asarray(array), gram_cache_bytes=gram_cache_bytes)


def _convert_sparse(X: Any, gram_cache_bytes: int) -> SparseDictionary | RowSparseDictionary:
    _check_shape(X.shape)
    kind = as_numbers(np.zeros(1, dtype=X.dtype), "dictionary").dtype
    if kind != X.dtype:
        X = X.astype(kind)
    by_rows = X.format == "csr" and kind.kind == "f"
    if by_rows:
        _log.info("reading the dictionary by rows, as it is stored (csr): single columns take a scan each time")
    elif X.format != "csc":
        _log.info("converting the dictionary from %s to csc", X.format)
        X = X.tocsc()
    if not X.has_canonical_format:
        _log.info("summing duplicate entries and sorting the dictionary's row indices, in a copy")
        X = X.copy()
        X.sum_duplicates()
    if by_rows:
        return RowSparseDictionary(X, gram_cache_bytes=gram_cache_bytes)
    return SparseDictionary(X, gram_cache_bytes=gram_cache_bytes)


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(f"dictionary must be two-dimensional, (samples, features), got shape {shape}")
    if 0 in shape:
        raise ValueError(f"dictionary must have at least one row and one column, got shape {shape}")
