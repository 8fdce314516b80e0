"""What a fit returns, and what can be asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fastsbl._base.checks import as_numbers, check_flag, check_whole_number
from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.sbl.averaging import CLOSE, SupportAverage, average_supports
from fastsbl.sbl.evidence import evidence_of
from fastsbl.sbl.model import SupportModel, weights_of_all
from fastsbl.screening.groups import Groups
from fastsbl.screening.problem import magnitudes

__all__ = ["Certificate", "NoiseCandidate", "Posterior", "SBLResult"]


@dataclass(frozen=True)
class Certificate:
    """How far each feature with gamma = 0 is from entering, on the full dictionary.

    Attributes
    ----------
    ratio : array of shape (n,), or (G,) for groups
        ``|phi_i' r| / (lam u_i)`` with r the residual (for groups and several targets, norms): at most 1 at a
        fixed point; a feature with gamma = 0 would enter above 1, one with gamma > 0 is at 1.
    largest_outside : float
        The largest ratio among features with gamma = 0.
    largest_error : float
        The largest ``|ratio - 1|`` among features with gamma > 0: what the iteration has still to go.
    passes : float
        Reads of the dictionary this took.
    """

    ratio: FloatArray = field(repr=False)
    largest_outside: float
    largest_error: float
    passes: float

    @property
    def holds(self) -> bool:
        """Whether no feature is about to enter (to one part in a thousand)."""
        return self.largest_outside <= 1.0 + 1e-3


@dataclass(frozen=True)
class NoiseCandidate:
    """One support that was tried while the noise variance was learned.

    Attributes
    ----------
    path_lam : float
        Noise variance of the fit that proposed the support.
    size : int
        Features in the support.
    lam : float
        Noise variance that maximises the evidence of the support.
    score : float
        -2 log evidence (up to a constant) less twice the log prior of the support; the lowest was chosen.
    support : int array of shape (size,)
        The features (for groups, of the groups) whose variance is above zero.
    """

    path_lam: float
    size: int
    lam: float
    score: float
    support: IndexArray = field(repr=False)


@dataclass(frozen=True)
class Posterior:
    """The Gaussian posterior of the coefficients at the learned gamma.

    Features with gamma = 0 have zero prior variance, so their coefficient is zero with certainty: the
    uncertainty about which features belong to the support is not in here.

    Attributes
    ----------
    support : int array of shape (s,)
        Features with gamma > 0.
    mean : array of shape (s,) or (s, L)
        Posterior mean on the support.
    covariance : array of shape (s, s)
        Posterior covariance on the support, the same for every target.
    lam : float
        Noise variance.
    evidence : float
        ``log p(y; gamma, lam)``.
    """

    support: IndexArray
    mean: Array
    covariance: Array = field(repr=False)
    lam: float
    evidence: float
    n_features: int

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviation on the support."""
        return np.asarray(np.sqrt(np.diag(self.covariance).real))

    def covariance_of(self, index: Any) -> Array:
        """Posterior covariance of any features, zero in the rows and columns of those with gamma = 0."""
        index = np.atleast_1d(np.asarray(index, dtype=np.intp))
        if ((index < 0) | (index >= self.n_features)).any():
            raise ValueError(
                f"index must be column numbers from 0 to {self.n_features - 1}, got {index.min()} to {index.max()}"
            )
        place = np.full(self.n_features, -1)
        place[self.support] = np.arange(self.support.size)
        where = place[index]
        out = np.zeros((index.size, index.size), dtype=self.covariance.dtype)
        inside = np.flatnonzero(where >= 0)
        out[np.ix_(inside, inside)] = self.covariance[np.ix_(where[inside], where[inside])]
        return out

    def predict(self, X: Any) -> tuple[Array, FloatArray]:
        """Predictive mean and variance (noise included) for new rows of the dictionary."""
        rows = as_dictionary(X)
        if rows.n_features != self.n_features:
            raise ValueError(f"X must have {self.n_features} columns, got {rows.n_features}")
        used = rows.columns(self.support) if self.support.size else np.zeros((rows.n_samples, 0))
        variance = self.lam + np.einsum("ij,jk,ik->i", used, self.covariance, used.conj()).real
        return used @ self.mean, variance


@dataclass(frozen=True)
class SBLResult:
    """A sparse Bayesian fit.

    Attributes
    ----------
    coef : array of shape (n,) or (n, L)
        Posterior mean of the coefficients.
    gamma : array of shape (n,)
        Prior variances; zero for features out of the model.
    lam : float
        Noise variance, given or learned.
    loss : float
        ``log|S| + y' S^-1 y`` at gamma.
    converged : bool
        Whether gamma settled and every feature was checked.
    n_iter : int
        Outer iterations, that is weighted lasso problems.
    passes : float
        Reads of the dictionary, as fractions of one whole pass.
    history : list of dict
        For each outer iteration: loss, gap, support size, relative change of gamma, share rejected per screening
        rule, features looked at singly, passes, seconds.
    residual : array of shape (N,) or (N, L)
        ``y - Phi coef``.
    n_effective : float
        Samples that the rows stand for.
    noise_path : tuple of NoiseCandidate
        The supports among which evidence chose, if the noise variance was learned.
    """

    coef: Array
    gamma: FloatArray
    lam: float
    loss: float
    converged: bool
    n_iter: int
    passes: float
    history: list[dict[str, Any]] = field(repr=False)
    residual: Array = field(repr=False)
    n_effective: float = field(repr=False)
    _dictionary: Dictionary = field(repr=False)
    _y: Array = field(repr=False)
    noise_path: tuple[NoiseCandidate, ...] = field(default=(), repr=False)
    _groups: Groups | None = field(default=None, repr=False)

    @property
    def support(self) -> IndexArray:
        """Features with gamma > 0."""
        return np.flatnonzero(self.gamma)

    @property
    def n_targets(self) -> int:
        """Targets that share gamma."""
        return 1 if self._y.ndim == 1 else int(self._y.shape[1])

    @property
    def evidence(self) -> float:
        """``log p(y; gamma, lam)``."""
        is_complex = self._dictionary.is_complex or np.iscomplexobj(self._y)
        return evidence_of(self.loss, self.n_effective, self.n_targets, is_complex)

    @cached_property
    def _model(self) -> SupportModel:
        rows = self._dictionary.columns(self.support).T
        return SupportModel(rows, rows.conj() @ rows.T, self.gamma[self.support], self.lam)

    @cached_property
    def weights(self) -> FloatArray:
        """Exact weights ``u_i = sqrt(phi_i' S^-1 phi_i)`` of all features, computed when asked for (one read)."""
        return weights_of_all(self._dictionary, self._model)

    def posterior(self) -> Posterior:
        """Posterior of the coefficients: mean, covariance, predictions, evidence."""
        model = self._model
        identity = np.eye(model.size)
        inner = model.solve(identity.astype(model.inner.dtype)) if model.size else identity
        covariance = self.lam * model.root[:, None] * inner * model.root
        covariance = 0.5 * (covariance + covariance.conj().T)
        return Posterior(self.support, self.coef[self.support], covariance, self.lam, self.evidence, self.gamma.size)

    def average(self, *, positive: bool = False, n_draws: int = 400, rng: Any = 0) -> SupportAverage:
        """Average over supports near this one, since which features count is not known for sure either.

        The posterior of a fit takes its features as given. Here supports are drawn: in turn, each of the features that
        could belong is in or out with the probability that the data and all others leave it (coefficients from one
        normal distribution and zero otherwise, all sizes of support equally probable beforehand). Those are the
        features of this fit, those of supports that came close while the noise was learned, and the hundred that
        correlate most with the residual. If the noise was learned, it is drawn as well.

        Prediction by the mean coefficients is better than by any one support where the support is in doubt, and its
        variance counts that doubt. Where the support is clear, both are as before.

        Parameters
        ----------
        positive : bool
            Whether coefficients are at least 0; as in the fit.
        n_draws : int
            Supports to draw.
        rng : int or numpy.random.Generator
            Where the random numbers come from; the same seed gives the same answer.

        Returns
        -------
        SupportAverage
            Probability of each feature, mean coefficients, predictions with their variance.

        Examples
        --------
        >>> import numpy as np
        >>> from fastsbl.sbl import fit_sbl
        >>> rng = np.random.default_rng(0)
        >>> phi = rng.standard_normal((60, 200))
        >>> y = phi[:, 7] + 0.5 * phi[:, 42] + rng.standard_normal(60)
        >>> average = fit_sbl(phi, y).average()
        >>> [(int(j), round(float(p), 1)) for j, p in zip(average.index, average.probability) if p > 0.3]
        [(7, 1.0), (42, 1.0)]
        """
        if self._groups is not None or self._dictionary.is_complex or np.iscomplexobj(self._y):
            what = "complex numbers" if self._groups is None else "groups"
            raise ValueError(f"average is for real data without groups, got {what}")
        best = min((one.score for one in self.noise_path), default=0.0)
        return average_supports(
            self,
            self._dictionary.metered(),
            self._y,
            [one.support for one in self.noise_path if one.score <= best + CLOSE],
            positive=check_flag(positive, "positive"),
            learn=bool(self.noise_path),
            n_draws=check_whole_number(n_draws, "n_draws"),
            rng=rng,
        )

    def certificate(self) -> Certificate:
        """Check every feature with exact weights: how far each is from entering the model (two reads)."""
        phi = self._dictionary.metered()
        residual = self._model.whiten_target(self._y)
        products = phi.correlate(residual)
        groups = self._groups
        sizes = (magnitudes(products) if groups is None else groups.norms(products)) / np.sqrt(self.n_targets)
        weights = self.weights if groups is None else groups.norms(self.weights)
        inside = (self.gamma if groups is None else groups.norms(self.gamma)) > 0
        used = weights > 0
        ratio = np.zeros(sizes.size)
        ratio[used] = sizes[used] / (self.lam * weights[used])
        return Certificate(
            ratio,
            float(np.max(ratio[~inside], initial=0.0)),
            float(np.max(np.abs(ratio[inside] - 1.0), initial=0.0)),
            phi.passes + 1.0,
        )

    def __repr__(self) -> str:
        """Say in one line what was found."""
        end = "converged" if self.converged else "NOT converged"
        return (
            f"SBLResult({self.support.size} of {self.gamma.size} features, lam={self.lam:.4g}, loss={self.loss:.6g}, "
            f"{end} in {self.n_iter} iterations, {self.passes:.1f} passes)"
        )


def gamma_to_start(warm_start: Any, n_features: int) -> FloatArray:
    """Gamma of a result, or prior variances given by a user."""
    return as_gamma(warm_start.gamma if isinstance(warm_start, SBLResult) else warm_start, n_features, "warm_start")


def as_gamma(value: Any, n_features: int, name: str) -> FloatArray:
    """Check prior variances given by a user."""
    array = as_numbers(value, name)
    if array.shape != (n_features,) or array.dtype.kind == "c" or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"{name} must be {n_features} finite numbers of at least 0, one per column, got shape {array.shape}"
        )
    return array.astype(np.float64)
