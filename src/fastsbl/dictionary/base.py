"""The dictionary Phi (N x n): what a solver may ask of it, and what each question costs."""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray

__all__ = ["Dictionary", "PassCounter"]

_SINGLE = 1e10  # norms of columns, and their inverses, whose inner products single precision holds to its last digit


class PassCounter:
    """Counts reads of the dictionary, as fractions of one whole pass, and time by purpose; tells its parent too."""

    def __init__(self, parent: PassCounter | None = None) -> None:
        self._lock = threading.Lock()
        self._parent = parent
        self.value = 0.0
        self.seconds: dict[str, float] = {}

    def add(self, share: float) -> None:
        """Count ``share`` of a whole pass."""
        with self._lock:
            self.value += share
        if self._parent is not None:
            self._parent.add(share)

    def add_seconds(self, purpose: str, seconds: float) -> None:
        """Count time spent for a purpose."""
        with self._lock:
            self.seconds[purpose] = self.seconds.get(purpose, 0.0) + seconds
        if self._parent is not None:
            self._parent.add_seconds(purpose, seconds)

    def __reduce__(self) -> tuple[type[PassCounter], tuple[()]]:
        """Pickle as a fresh counter: locks do not travel."""
        return PassCounter, ()


class GramCache:
    """Gram columns Phi^H phi_j, least recently used dropped first once ``limit`` bytes are held."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._columns: OrderedDict[int, Array] = OrderedDict()
        self._bytes = 0

    def find(self, index: IndexArray) -> dict[int, Array]:
        """Return the columns held among ``index``."""
        with self._lock:
            found = {}
            for j in map(int, index):
                if j in self._columns:
                    self._columns.move_to_end(j)
                    found[j] = self._columns[j]
            return found

    def keep(self, j: int, column: Array) -> None:
        """Hold one column if the limit has room for any."""
        if column.nbytes > self.limit:
            return
        with self._lock:
            if j in self._columns:
                return
            self._columns[j] = column
            self._bytes += column.nbytes
            while self._bytes > self.limit:
                _, dropped = self._columns.popitem(last=False)
                self._bytes -= dropped.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    def __reduce__(self) -> tuple[type[GramCache], tuple[int]]:
        """Pickle as an empty cache of the same limit."""
        return GramCache, (self.limit,)


class _Norms:
    """The column norms, computed once and shared by all views of one dictionary."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.value: FloatArray | None = None

    def __reduce__(self) -> tuple[type[_Norms], tuple[()]]:
        return _Norms, ()


class Dictionary(ABC):
    """A matrix Phi of n columns of length N, seen only through a few counted questions.

    Subclasses store the numbers; solvers ask for column norms, correlations ``Phi^H R``, single
    columns and Gram columns, and never how the numbers are stored. A dictionary may be used by
    several threads at once.

    Parameters
    ----------
    shape : (int, int)
        Rows N (samples) and columns n (features).
    dtype : numpy dtype
        float32, float64, complex64 or complex128: the precision of the products.
    gram_cache_bytes : int
        Room for Gram columns.
    """

    #: Whether a few columns can be read at a cost in proportion to their number.
    cheap_columns: bool = True
    #: Whether columns can be had by their stored values alone, from ``sparse_columns``.
    is_sparse: bool = False
    #: (m, d) if columns are those of ``sparse_columns`` less ``m_i d``, with d of shape (N,): centred sparse data.
    shift: tuple[FloatArray, FloatArray] | None = None

    def __init__(self, shape: tuple[int, int], dtype: Any, gram_cache_bytes: int = 2**28) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self._counter = PassCounter()
        self._norms = _Norms()
        self._gram_cache = GramCache(gram_cache_bytes)
        self._reader: Callable[[Array], Array] | None = None
        self._whole_gram: Array | None = None

    # -- what it is ---------------------------------------------------------------------------
    @property
    def n_samples(self) -> int:
        """Rows, N."""
        return self.shape[0]

    @property
    def n_features(self) -> int:
        """Columns, n."""
        return self.shape[1]

    @property
    def is_complex(self) -> bool:
        """Whether the numbers are complex."""
        return bool(self.dtype.kind == "c")

    @property
    def work_dtype(self) -> np.dtype[Any]:
        """float64 or complex128: the precision in which small quantities are kept."""
        return np.dtype(np.complex128 if self.is_complex else np.float64)

    @property
    def column_size(self) -> float:
        """Mean count of numbers that a column holds."""
        return float(self.n_samples)

    @property
    def eps(self) -> float:
        """Rounding unit of the products."""
        return float(np.finfo(self.dtype).eps)

    @property
    def passes(self) -> float:
        """Reads of Phi so far, as fractions of one whole pass."""
        return self._counter.value

    def seconds_in(self, purpose: str) -> float:
        """Processor time spent so far on "screening" (tests) or on "solving" (inner problems, tests included).

        It is counted in the threads that ask, not in those that help them read.
        """
        return self._counter.seconds.get(purpose, 0.0)

    def note_seconds(self, purpose: str, seconds: float) -> None:
        """Count processor time spent for a purpose."""
        self._counter.add_seconds(purpose, seconds)

    @property
    def gram_cache_bytes(self) -> int:
        """Bytes that cached Gram columns take now."""
        return self._gram_cache.nbytes

    def metered(self) -> Self:
        """Return a view of the same numbers that counts its own passes (and adds them here too)."""
        view = copy.copy(self)
        view._counter = PassCounter(self._counter)
        return view

    def read_by(self, reader: Callable[[Array], Array]) -> Self:
        """Return a view that counts its own passes and lets ``reader(R)`` make its whole products ``Phi^H R``.

        The reader may wait and answer several views with one read, which is what is counted here.
        """
        view = copy.copy(self)
        view._counter = PassCounter()
        view._reader = reader
        return view

    def with_gram(self, *, single: bool = False) -> Self:
        """Return a view that holds ``Phi^H Phi``, in ``n^2`` numbers of double (or ``single``) precision.

        For very many fits on one dictionary of some thousand columns: sparse Bayesian fits then look at all features
        without reading any, which pays at small noise variances. The answers stay the same, in single precision too:
        the fits know how far its rounding may lead, and decide what lies within it from the columns.
        """
        view = self.metered()
        if single:
            norms = self.column_norms()
            odd = norms[(norms > 0) & ((norms < 1.0 / _SINGLE) | (norms > _SINGLE))]
            if odd.size:
                raise ValueError(
                    f"single=True needs columns with norms between {1.0 / _SINGLE:g} and {_SINGLE:g} (or 0), got "
                    f"{odd[0]:.3g}: scale the columns, or keep double precision"
                )
        if view._whole_gram is None:
            dtype = {"f": np.float32, "c": np.complex64}[self.work_dtype.kind] if single else self.work_dtype
            whole = np.empty((self.n_features, self.n_features), dtype=dtype)
            step = 512
            for low in range(0, self.n_features, step):
                part = np.arange(low, min(low + step, self.n_features))
                whole[part] = np.conj(view.correlate(view.columns(part))).T
            whole.flags.writeable = False
            view._whole_gram = whole
        return view

    @property
    def whole_gram(self) -> Array | None:
        """``Phi^H Phi`` if this view holds it, see `with_gram`."""
        return self._whole_gram

    def __repr__(self) -> str:
        """Storage kind, shape, precision and passes so far."""
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, passes={self.passes:.2f})"

    # -- the questions ------------------------------------------------------------------------
    def column_norms(self) -> FloatArray:
        """Euclidean norms of the columns, shape (n,); computed once."""
        with self._norms.lock:
            if self._norms.value is None:
                self._counter.add(1.0)
                return self._set_norms(self._squared_norms())
            return self._norms.value

    def norms_and_correlations(self, vector: Array) -> tuple[FloatArray, Array]:
        """Column norms and ``Phi^H vector``, in one read of Phi where the storage allows it."""
        with self._norms.lock:
            if self._norms.value is None:
                both = self._squared_norms_and_correlations(vector)
                if both is not None:
                    self._counter.add(1.0)
                    return self._set_norms(both[0]), both[1]
            norms = self.column_norms()
        return norms, self.correlate(vector)

    def correlate(self, R: Array, index: IndexArray | None = None) -> Array:
        """``Phi^H R`` for R of shape (N,) or (N, L), or only its rows ``index``.

        Returns
        -------
        array of shape (n,), (n, L), (k,) or (k, L)
            In float64 or complex128; the products are made in the dictionary's own precision.
        """
        R = np.asarray(R)
        if R.ndim not in (1, 2) or R.shape[0] != self.n_samples:
            raise ValueError(f"R must have {self.n_samples} rows, as the dictionary has, got shape {R.shape}")
        if index is None:
            self._counter.add(1.0)
            return self._correlate(R) if self._reader is None else self._reader(R)
        index = self._check_index(index)
        self._counter.add(self._share(index))
        return self._correlate_some(R, index)

    def columns(self, index: Any) -> Array:
        """The columns ``index`` as a dense (N, k) array in float64 or complex128."""
        index = self._check_index(index)
        self._counter.add(self._share(index))
        return self._columns(index)

    def columns_as_rows(self, index: IndexArray) -> tuple[Array, IndexArray]:
        """The columns ``index`` as rows of an array in double precision, and at which of its rows they are.

        Where the numbers are stored that way it is the whole storage itself, and nothing is copied.
        """
        return np.ascontiguousarray(self.columns(index).T), np.arange(index.size)

    def sparse_columns(self, index: IndexArray) -> tuple[FloatArray, Array, Array]:
        """Stored values (float64), row numbers and starts of real sparse columns, one column after the other."""
        raise TypeError(f"{type(self).__name__} does not hold real columns by their stored values")

    def gram(self, index: Any) -> Array:
        """Gram columns ``Phi^H Phi[:, index]``, shape (n, k), through a cache bounded in bytes."""
        index = self._check_index(index)
        found = self._gram_cache.find(index)
        missing = np.array([j for j in dict.fromkeys(map(int, index)) if j not in found], dtype=np.intp)
        if missing.size:
            product = self.correlate(self.columns(missing))
            for k, j in enumerate(map(int, missing)):
                found[j] = np.ascontiguousarray(product[:, k])
                self._gram_cache.keep(j, found[j])
        out = np.empty((self.n_features, index.size), dtype=self.work_dtype, order="F")
        for k, j in enumerate(map(int, index)):
            out[:, k] = found[j]
        return out

    def apply(self, coef: Array) -> Array:
        """``Phi coef`` for coef of shape (n,) or (n, L); reads only columns with a nonzero coefficient."""
        coef = np.asarray(coef)
        if coef.ndim not in (1, 2) or coef.shape[0] != self.n_features:
            raise ValueError(f"coef must have {self.n_features} rows, one per column, got shape {coef.shape}")
        used = np.flatnonzero(coef if coef.ndim == 1 else np.any(coef != 0, axis=1))
        dtype = np.result_type(self.work_dtype, coef.dtype)
        out = np.zeros((self.n_samples, *coef.shape[1:]), dtype=dtype)
        step = max(1, 2**24 // max(self.n_samples, 1))
        for low in range(0, used.size, step):
            part = used[low : low + step]
            out += self.columns(part) @ coef[part]
        return out

    # -- what a storage kind provides ---------------------------------------------------------
    @abstractmethod
    def _correlate(self, R: Array) -> Array: ...

    @abstractmethod
    def _columns(self, index: IndexArray) -> Array: ...

    @abstractmethod
    def _squared_norms(self) -> FloatArray: ...

    def _squared_norms_and_correlations(self, vector: Array) -> tuple[FloatArray, Array] | None:
        """Both in one read, or None if this storage has no such kernel."""
        return None

    def _correlate_some(self, R: Array, index: IndexArray) -> Array:
        return self._columns(index).conj().T @ R

    def _check_index(self, index: Any) -> IndexArray:
        """Column numbers as an array, or an error that says which are out of range."""
        numbers = np.atleast_1d(np.asarray(index))
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise TypeError(
                f"index must be a list of column numbers, got an array of {numbers.dtype} with shape {numbers.shape}"
            )
        if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= self.n_features):
            raise IndexError(
                f"index must hold column numbers from 0 to {self.n_features - 1}, "
                f"got {numbers.min()} to {numbers.max()}"
            )
        return numbers.astype(np.intp, copy=False)

    def _share(self, index: IndexArray) -> float:
        return index.size / self.n_features

    def _set_norms(self, squares: FloatArray) -> FloatArray:
        """Check the norms, share them with all views, and return them."""
        with np.errstate(invalid="ignore"):
            norms = np.sqrt(squares)  # a new array: what came may belong to the storage
        least, most = float(norms.min()), float(norms.max())
        if not most < np.inf:  # NaN counts as such
            bad = np.flatnonzero(~np.isfinite(norms))
            raise ValueError(
                f"dictionary must be finite, got NaN, infinite or overflowing values in {bad.size} of its "
                f"{self.n_features} columns, the first in column {bad[0]}"
            )
        # squares of very small numbers underflow: such columns are measured again, scaled by their largest entry
        single = self.eps > 1e-10
        small: IndexArray = np.zeros(0, dtype=np.intp)
        if least < 1e-15:
            small = np.flatnonzero((norms < 1e-15) if single else (norms > 0) & (norms < 1e-140))
        for low in range(0, small.size, 256):
            part = np.abs(self._columns(small[low : low + 256]))
            largest = part.max(axis=0)
            scaled = part / np.where(largest > 0, largest, 1.0)
            norms[small[low : low + 256]] = largest * np.sqrt(np.einsum("ij,ij->j", scaled, scaled))
        norms.flags.writeable = False
        self._norms.value = norms
        return norms
