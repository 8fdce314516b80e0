"""Learning the noise variance: a path of fits, each support refitted together with its noise, chosen by evidence.

Lowering Loss over lam as well as gamma leads to far too little noise when there are more features than
samples, because many small spurious features each explain a little. Here every support of the path gets
the gamma and lam that maximise its evidence. Supports compete by evidence and a charge for the choice (see
`Chance`). The noise variance of the winner is then raised by what features that are there by chance took away
from the residual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs, qr

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.sbl.chance import Chance, distinct_rows
from fastsbl.sbl.model import SupportModel
from fastsbl.sbl.outer import Inner, Settings, Start, make_inner, run
from fastsbl.sbl.result import NoiseCandidate, SBLResult

__all__ = ["learn_noise", "refit"]

_STEP = 10.0**-0.2
_LEAP = 10.0**-1.0  # past the best support of the path, where only a denser truth could still turn up
_MOST_STEPS = 50
_HOPELESS = 20.0  # a score this far above the best: odds of exp(10)
_MUCH_LEFT = 0.25  # of the target's power: with so much unexplained, a denser truth may have been missed in any case
_UNLIKE = 6.0  # features that were missed have at least a sixth of the mean power of those that were found
_LARGEST_SHARE = 0.75  # of the samples: supports beyond follow the noise whatever the truth
_ROUGH = 3e-2  # how far the fits that propose supports are run: the refit does the rest
_LEAST = 1e-154  # the noise of a target that is zero: its inverse still has a square


@dataclass(frozen=True)
class Refit:
    """Gamma and noise variance that maximise the evidence of one support."""

    kept: IndexArray
    """Places in the support that are still above zero."""
    gamma: FloatArray
    mean: Array
    lam: float
    loss: float
    converged: bool
    weakest: float = np.inf
    """Smallest power of a coefficient (or group), without its prior, over its variance."""
    left: float = np.inf
    """What the coefficients leave of the samples to tell the noise from."""


def refit(
    rows: Array,
    y: Array,
    gamma: FloatArray,
    n_samples: float,
    *,
    labels: IndexArray | None = None,
    positive: bool = False,
    lam: float | None = None,
    tol: float = 1e-5,
    max_iter: int = 1000,
) -> Refit:
    """Maximise the evidence of a small support over its gamma and the noise variance together.

    ``lam`` is the noise variance if only gamma is to be found. ``labels`` numbers the group of each feature, if they
    share gamma. Works in the span of the support, so its cost does not depend on N after one QR factorisation.
    """
    n_targets = 1 if y.ndim == 1 else y.shape[1]
    total = float(np.vdot(y, y).real)
    floor = 1e-24 * total / (n_samples * n_targets)
    r, inside, outside = _rotated(rows, y)
    kept = np.arange(rows.shape[0])
    grouped = labels is not None
    codes = kept if labels is None else np.unique(labels, return_inverse=True)[1]

    def shared(values: FloatArray) -> FloatArray:
        """Sum over each feature's group."""
        return np.asarray(np.bincount(codes[kept], values)[codes[kept]])

    reduced = np.ascontiguousarray(r.T)
    given = lam is not None
    lam = max(outside / (n_targets * max(n_samples - kept.size, 1)), floor) if lam is None else lam
    best = np.inf
    careful, converged = False, False
    for step in range(max_iter):
        model = SupportModel(reduced, reduced.conj() @ reduced.T, gamma, lam)
        mean = model.posterior_mean(inside)
        error = inside - reduced.T @ mean
        squared = float(np.vdot(error, error).real) + outside
        value = n_targets * model.log_det(n_samples) + squared / lam + _prior(mean, gamma)
        careful = careful or value > best + 1e-9 * abs(best)
        best = min(best, value)
        power = (np.abs(mean) ** 2).reshape(kept.size, n_targets).sum(axis=1) / n_targets
        explained = np.minimum(gamma * model.weights(reduced) ** 2, 1.0)  # how far the data determine each coefficient
        if careful:  # the steps of the outer loop, which never raise the objective
            fresh = np.sqrt(shared(power) / np.maximum(shared(explained / gamma), 1e-300))
            trace = (n_samples - explained.sum()) / lam
            fresh_lam = lam * np.sqrt(squared / (lam * lam * n_targets * trace))
        else:
            fresh = shared(power) / np.maximum(shared(explained), 1e-12)
            fresh_lam = squared / (n_targets * max(n_samples - float(explained.sum()), 1e-3 * n_samples))
        fresh_lam = lam if given else max(fresh_lam, floor)
        sizes = fresh * shared(np.einsum("ij,ij->i", reduced.conj(), reduced).real)
        alive = sizes > 1e-9 * fresh_lam
        if positive:
            alive &= mean > 0
        if step % 5 == 4 and not grouped and kept.size:
            # given the others, gamma_i = 0 is best where the data ask for less than the prior expects
            pull = _pull(power, gamma, explained)
            weakest = int(np.argmin(pull))
            alive[weakest] &= pull[weakest] > 1.0
        moved = np.abs(fresh - gamma) * sizes / fresh
        change = max(
            float(moved.max(initial=0.0)) / max(float(sizes.max(initial=0.0)), 1e-300), abs(fresh_lam - lam) / fresh_lam
        )
        gamma, lam = fresh[alive], fresh_lam
        if not alive.all():
            kept, reduced = kept[alive], reduced[alive]
            best, careful = np.inf, False
        elif change < tol:
            converged = True
            break
    model = SupportModel(reduced, reduced.conj() @ reduced.T, gamma, lam)
    mean = model.posterior_mean(inside)
    error = inside - reduced.T @ mean
    squared = float(np.vdot(error, error).real) + outside
    value = n_targets * model.log_det(n_samples) + squared / lam + _prior(mean, gamma)
    power = (np.abs(mean) ** 2).reshape(kept.size, n_targets).sum(axis=1) / n_targets
    explained = np.minimum(gamma * model.weights(reduced) ** 2, 1.0)
    pull = shared(_pull(power, gamma, explained)) / shared(np.ones(kept.size))
    left = n_samples - float(explained.sum())
    return Refit(kept, gamma, mean, lam, value, converged, float(pull.min(initial=np.inf)), left)


def _rotated(rows: Array, y: Array) -> tuple[Array, Array, float]:
    """R of ``rows.T = Q R``, ``Q^H y``, and the square of what y has outside; Q itself is not formed."""
    is_complex = np.iscomplexobj(rows) or np.iscomplexobj(y)
    dtype = np.complex128 if is_complex else np.float64
    if rows.shape[0] == 0:
        return np.zeros((0, 0), dtype), np.zeros((0, *y.shape[1:]), dtype), float(np.vdot(y, y).real)
    (raw, tau), r = qr(rows.T.astype(dtype), mode="raw", overwrite_a=True, check_finite=False)
    multiply: Any = get_lapack_funcs("unmqr" if is_complex else "ormqr", dtype=dtype)
    targets = np.array(y.reshape(y.shape[0], -1), dtype=dtype, order="F")
    turned = multiply(
        "L", "C" if is_complex else "T", raw[:, : tau.size], tau, targets, max(64 * targets.shape[1], 64)
    )[0]
    size = tau.size
    return r[:size], turned[:size].reshape(size, *y.shape[1:]), float(np.linalg.norm(turned[size:]) ** 2)


def _pull(power: FloatArray, gamma: FloatArray, explained: FloatArray) -> FloatArray:
    """Squares of the least-squares coefficients, given the others, over their variances."""
    return np.asarray(power / np.maximum(gamma * explained * (1.0 - explained), 1e-300))


def _prior(mean: Array, gamma: FloatArray) -> float:
    return float(np.sum((np.abs(mean) ** 2).T / gamma)) if gamma.size else 0.0


@dataclass(frozen=True)
class _Tried:
    """One support of the path after its refit."""

    score: float
    index: IndexArray
    fit: Refit


class _Race:
    """The supports that compete."""

    def __init__(self, start: Start, y: Array, settings: Settings) -> None:
        self.start, self.y, self.positive = start, y, settings.positive
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        used = int(np.count_nonzero(start.norms > 0))
        columns = int(np.count_nonzero(start.column_norms > 0))
        is_complex = np.iscomplexobj(start.problem.correlations)
        self.chance = Chance(used, y.shape[0], n_targets * columns / max(used, 1), is_complex=is_complex)
        self.candidates: list[NoiseCandidate] = []
        self.best: _Tried | None = None
        self.chosen = 0
        self._seen: dict[tuple[int, ...], _Tried] = {}

    def labels(self, index: IndexArray) -> IndexArray | None:
        groups = self.start.groups
        return None if groups is None else groups.labels()[index]

    def enter(self, found: SBLResult) -> _Tried:
        """Refit the support of a fit with its noise and compare."""
        support = found.support
        key = tuple(support.tolist())
        if key in self._seen:
            return self._seen[key]
        rows = self.start.problem.dictionary.columns(support).T
        labels = self.labels(support)
        n_effective = self.start.n_effective
        fit = refit(rows, self.y, found.gamma[support], n_effective, labels=labels, positive=self.positive)
        if fit.kept.size < support.size:
            rows = rows[fit.kept]
        size = fit.kept.size if labels is None else np.unique(labels[fit.kept]).size
        distinct = min(distinct_rows(rows, self.y), n_effective)
        score = fit.loss + self.chance.charge(size, distinct)
        if size > distinct * max(_LARGEST_SHARE * distinct / n_effective, 1.0 / 3.0):
            score = np.inf  # it can follow the noise, which repeated rows repeat
        tried = _Tried(score, support[fit.kept], fit)
        self._seen[key] = tried
        if self.best is None or tried.score < self.best.score:
            self.best, self.chosen = tried, len(self.candidates)
        self.candidates.append(NoiseCandidate(found.lam, int(size), fit.lam, tried.score, tried.index))
        return tried

    def may_be_denser(self, left: float) -> bool:
        """Whether what the best support leaves, as a share of the target's power, may hide many features more.

        With a quarter left it always may: features that overlap, such as kernels, explain a curve only all together.
        Otherwise, one of k features in the residual shows there if it has more than 2 log n / N of its power. If so
        many are hidden that none does, each has left / k of the power; that is little beside those that were found
        unless these are many, or much is left.
        """
        if self.best is None or left >= _MUCH_LEFT:
            return True
        least = self.start.n_effective / (2.0 * np.log(max(self.chance.n_features, 2)))
        return bool(_UNLIKE * self.best.index.size * left >= (1.0 - left) * least)


def learn_noise(start: Start, y: Array, settings: Settings) -> SBLResult:
    """Fit along falling noise variances, each from the last, refit each support with its noise; return the best."""
    phi, norms = start.problem.dictionary, start.column_norms
    power = float(np.vdot(y, y).real)
    n_values = start.n_effective * (1 if y.ndim == 1 else y.shape[1])
    inner: Inner = make_inner(start, y, settings)
    rough = settings.with_accuracy(max(settings.tol, _ROUGH), min(settings.max_iter, 60))
    gamma: FloatArray | None = None
    race = _Race(start, y, settings)
    history: list[dict[str, Any]] = []
    lam, step = start.lambda_max, _STEP
    for _ in range(_MOST_STEPS if power > 0 and lam > 0 else 0):
        found = run(start, y, lam, rough, inner=inner, quiet=True, gamma=gamma)
        gamma = found.gamma
        history += [{**record, "lam": lam} for record in found.history]
        if found.support.size > _LARGEST_SHARE * start.n_effective and race.best is not None:
            break
        tried = race.enter(found)
        best = race.best
        assert best is not None
        if lam < tried.fit.lam and best.index.size:
            break  # the noise of the support itself is above what the path now takes for noise: nothing more to say
        if tried.score > best.score + _HOPELESS and best.index.size:
            if phi.n_features <= start.n_effective or not race.may_be_denser(best.fit.lam * n_values / power):
                break
            step = _LEAP
        elif tried is best:
            step = _STEP
        lam *= step
        if lam < 1e-12 * power:  # below, the model is singular to double precision
            break
    if race.best is None:  # no column reaches the target: all of it is noise
        return run(start, y, max(power / n_values, _LEAST), settings, inner=inner, since=0.0)
    fit, index = _settle(race, settings)
    coef = np.zeros((norms.size, *y.shape[1:]), dtype=np.result_type(start.problem.correlations, np.float64))
    gamma = np.zeros(norms.size)
    coef[index], gamma[index] = fit.mean, fit.gamma
    return SBLResult(
        coef=coef,
        gamma=gamma,
        lam=fit.lam,
        loss=fit.loss,
        converged=fit.converged,
        n_iter=len(history),
        passes=phi.passes,
        history=history,
        residual=y - phi.apply(coef),
        n_effective=start.n_effective,
        noise_path=tuple(race.candidates),
        _dictionary=phi,
        _y=y,
        _groups=start.groups,
    )


def _settle(race: _Race, settings: Settings) -> tuple[Refit, IndexArray]:
    """Refit the winner to the last digits, so that it does not depend on how it was reached, and raise its noise."""
    best = race.best
    assert best is not None
    start, y = race.start, race.y
    options: dict[str, Any] = {"positive": settings.positive, "tol": 1e-11, "max_iter": 5000}
    index = best.index
    rows = start.problem.dictionary.columns(index).T
    fit = refit(rows, y, best.fit.gamma, start.n_effective, labels=race.labels(index), **options)
    index, rows = index[fit.kept], rows[fit.kept]
    labels = race.labels(index)
    size = index.size if labels is None else np.unique(labels).size
    hidden = race.chance.hidden(size, fit.weakest) if size else 0.0
    if hidden > 0.0:  # raise it, to twice at most
        left = fit.left / (fit.left - hidden) if hidden < 0.5 * fit.left else 2.0
        fit = refit(rows, y, fit.gamma, start.n_effective, labels=labels, lam=fit.lam * left, **options)
        index = index[fit.kept]
    first = race.candidates[race.chosen]
    race.candidates[race.chosen] = replace(first, lam=fit.lam, support=index)
    return fit, index
