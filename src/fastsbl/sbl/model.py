"""The Gaussian model with its few active features: S = lam I + B B', seen from the support alone."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular
from scipy.linalg.blas import dtrsm, strsm
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import Dictionary

__all__ = ["SupportModel", "weights_of_all"]

_ACCURACY = 1e-11  # what a weight's square may lose by taking the quick way


class SupportModel:
    """``S = lam I + Phi_A diag(gamma_A) Phi_A^H`` for the features A with gamma > 0.

    Parameters
    ----------
    rows : array of shape (s, N)
        The columns of A, as rows.
    gram : array of shape (s, s)
        ``Phi_A^H Phi_A``.
    gamma : array of shape (s,)
        Prior variances, above 0.
    lam : float
        Noise variance.
    """

    def __init__(self, rows: Array, gram: Array, gamma: FloatArray, lam: float) -> None:
        self.rows = np.ascontiguousarray(rows)  # as compiled code takes them
        self.gram = gram
        self.gamma = gamma
        self.lam = lam
        self.root = np.sqrt(gamma)
        self.scaled = np.multiply(self.root[:, None], rows, order="C")  # B^T
        inner: Array = self.root[:, None] * gram * self.root
        self.inner = inner
        functions: Any = (
            (dpotrf, dpotrs) if inner.dtype == np.float64 else get_lapack_funcs(("potrf", "potrs"), (inner,))
        )
        self._potrf, self._potrs = functions
        self._factor = self._factorize(inner)

    def _factorize(self, inner: Array) -> Array:
        """Factor ``lam I + B^H B``; by eigenvalues, which cannot fall below lam, where Cholesky meets rounding."""
        size = inner.shape[0]
        self._eigen: tuple[FloatArray, Array] | None = None
        if size == 0:
            return inner
        factor, failed = self._potrf(inner + self.lam * np.eye(size), lower=1, clean=1)
        if failed:
            values, vectors = np.linalg.eigh(inner)
            self._eigen = (np.maximum(values, 0.0) + self.lam, vectors)
        return np.asarray(factor)

    @property
    def size(self) -> int:
        """Active features."""
        return int(self.gamma.size)

    def solve(self, right: Array) -> Array:
        """``(lam I + B^H B)^-1 right``."""
        if self.size == 0:
            return right
        if self._eigen is not None:
            values, vectors = self._eigen
            return np.asarray(vectors @ ((vectors.conj().T @ right).T / values).T)
        return np.asarray(self._potrs(self._factor, right, lower=1)[0])

    @cached_property
    def back(self) -> FloatArray:
        """A matrix with ``back' back = (lam I + B'B)^-1``, as compiled code takes it; real data."""
        if self.size == 0:
            return np.zeros((0, 0))
        if self._eigen is not None:
            values, vectors = self._eigen
            return np.ascontiguousarray((vectors / np.sqrt(values)).T)
        return np.ascontiguousarray(dtrtri(self._factor, lower=1)[0])

    @cached_property
    def trace(self) -> float:
        """Trace of ``B'B``."""
        return float(np.trace(self.inner).real)

    def whiten(self, right: Array) -> Array:
        """``L^-1 right`` for a square root L of ``lam I + B^H B``."""
        if self._eigen is not None:
            values, vectors = self._eigen
            return np.asarray(((vectors.conj().T @ right).T / np.sqrt(values)).T)
        return np.asarray(solve_triangular(self._factor, right, lower=True, check_finite=False))

    def explained(self, products: FloatArray) -> FloatArray:
        """``||L^-1 B' phi||^2`` of vectors from ``Phi_A' phi``, a column for each, which is overwritten; real data.

        It is what the model explains of ``||phi||^2``: the rest is ``lam phi' S^-1 phi``. Products in single precision
        are worked on as they are.
        """
        if self._eigen is not None or not products.flags.c_contiguous:
            products = self.whiten(self.root[:, None] * products)
        elif products.dtype == np.float32:  # in units of the noise, so that nothing leaves the range
            unit = 1.0 / np.sqrt(self.lam)
            products *= (unit * self.root)[:, None]
            strsm(1.0, unit * self._factor, products.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        else:  # the transpose lies as BLAS wants it
            products *= self.root[:, None]
            dtrsm(1.0, self._factor, products.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        return np.asarray(np.einsum("ij,ij->j", products, products))

    def log_det(self, n_samples: float) -> float:
        """``log |S|``."""
        if self.size == 0:
            return n_samples * float(np.log(self.lam))
        outside = (n_samples - self.size) * float(np.log(self.lam))
        if self._eigen is not None:
            return outside + float(np.log(self._eigen[0]).sum())
        return outside + 2.0 * float(np.log(np.diag(self._factor).real).sum())

    def split(self, rows: Array, products: Array | None = None) -> tuple[Array, Array]:
        """For vectors (as rows): what the active features leave of each, over sqrt(lam), and the coefficients.

        ``products`` is ``Phi_A^H`` times the vectors, if known. The two together are a square root of S^-1:
        their inner products are ``phi^H S^-1 phi``.
        """
        if self.size == 0:
            return rows / np.sqrt(self.lam), np.zeros((0, rows.shape[0]))
        if products is None:
            products = self.rows.conj() @ rows.T
        x = self.solve(self.root[:, None] * products)
        left = x.T @ self.scaled
        np.subtract(rows, left, out=left)
        left /= np.sqrt(self.lam)
        return left, x

    def weights(self, rows: Array, products: Array | None = None) -> FloatArray:
        """``u = sqrt(phi^H S^-1 phi)`` of vectors given as rows, in the ridge-residual form."""
        left, x = self.split(rows, products)
        squares = np.einsum("ij,ij->i", left.conj(), left).real + np.einsum("ij,ij->j", x.conj(), x).real
        return np.asarray(np.sqrt(squares))

    def whiten_target(self, y: Array) -> Array:
        """``lam S^-1 y``: the residual of the posterior mean."""
        if self.size == 0:
            return y
        coefficients = self.solve(self.scaled.conj() @ y)
        return np.asarray(y - self.scaled.T @ coefficients)

    def posterior_mean(self, y: Array) -> Array:
        """Posterior mean of the active coefficients."""
        if self.size == 0:
            return np.zeros((0, *y.shape[1:]))
        coefficients = self.solve(self.scaled.conj() @ y)
        return np.asarray((coefficients.T * self.root).T)


def weights_of_all(phi: Dictionary, model: SupportModel) -> FloatArray:
    """Exact weights ``u_i = sqrt(phi_i^H S^-1 phi_i)`` of all columns: one read of the dictionary, and a part of one.

    Most come from products with the model's few directions, ``u^2 = (||phi||^2 - ||L^-1 B^H phi||^2) / lam``; where
    that difference may lose more than a few digits, and for single precision, from the columns themselves.
    """
    norms = phi.column_norms()
    if model.size == 0:
        return np.asarray(norms / np.sqrt(model.lam))
    out = np.empty(phi.n_features)
    doubtful = np.arange(phi.n_features)
    growth = 1.0 + model.trace / model.lam  # bounds the condition of lam I + B^H B
    threshold = 64 * phi.eps * growth / _ACCURACY
    if threshold < 1.0:
        squares = norms**2
        whitened = model.whiten(phi.correlate(model.scaled.T).conj().T)
        left = squares - np.einsum("ij,ij->j", whitened.conj(), whitened).real
        doubtful = np.flatnonzero(left < threshold * squares)
        out = np.sqrt(np.maximum(left, 0.0) / model.lam)
    step = max(1, 2**22 // phi.n_samples)
    for low in range(0, doubtful.size, step):
        index = doubtful[low : low + step]
        out[index] = model.weights(phi.columns(index).T)
    return out
