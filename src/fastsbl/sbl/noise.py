"""Learning the noise variance: a path of fits, each support refitted together with its noise, chosen by evidence.

Lowering Loss over lam as well as gamma leads to far too little noise when there are more features than
samples, because many small spurious features each explain a little. Here every support of the path gets
the gamma and lam that maximise its evidence, and supports compete by evidence times a prior that is
uniform over the number of features, and over the supports of each size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.sbl.model import SupportModel
from fastsbl.sbl.outer import Inner, Settings, Start, make_inner, run
from fastsbl.sbl.result import NoiseCandidate, SBLResult

__all__ = ["learn_noise", "refit"]

_STEP = 10.0**-0.2
_MOST_STEPS = 50
_PATIENCE = 10  # supports without improvement (two decades of lam) once one is better than none


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


def refit(
    rows: Array,
    y: Array,
    gamma: FloatArray,
    n_samples: float,
    *,
    labels: IndexArray | None = None,
    positive: bool = False,
    tol: float = 1e-5,
    max_iter: int = 1000,
) -> Refit:
    """Maximise the evidence of a small support over its gamma and the noise variance together.

    ``labels`` numbers the group of each feature, if they share gamma. Works in the span of the support, so its
    cost does not depend on N after one QR factorisation.
    """
    n_targets = 1 if y.ndim == 1 else y.shape[1]
    total = float(np.vdot(y, y).real)
    floor = 1e-24 * total / (n_samples * n_targets)
    q, r = np.linalg.qr(rows.T)
    inside = q.conj().T @ y
    left = y - q @ inside
    outside = float(np.vdot(left, left).real)
    kept = np.arange(rows.shape[0])
    grouped = labels is not None
    codes = kept if labels is None else np.unique(labels, return_inverse=True)[1]

    def shared(values: FloatArray) -> FloatArray:
        """Sum over each feature's group."""
        return np.asarray(np.bincount(codes[kept], values)[codes[kept]])

    reduced = np.ascontiguousarray(r.T)
    lam = max(outside / (n_targets * max(n_samples - kept.size, 1)), floor)
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
        fresh_lam = max(fresh_lam, floor)
        sizes = fresh * shared(np.einsum("ij,ij->i", reduced.conj(), reduced).real)
        alive = sizes > 1e-9 * fresh_lam
        if positive:
            alive &= mean > 0
        if step % 5 == 4 and not grouped and kept.size:
            # given the others, gamma_i = 0 is best where the data ask for less than the prior expects
            pull = power / np.maximum(gamma * explained * (1.0 - explained), 1e-300)
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
    return Refit(kept, gamma, mean, lam, value, converged)


def _polish(rows: Array, y: Array, fit: Refit, start: Start, settings: Settings) -> Refit:
    """Refit the chosen support to the last digits, so that the answer does not depend on how it was reached."""
    labels = None
    if start.groups is not None:
        labels = np.unique(fit.gamma, return_inverse=True)[1]  # members of a group have the same gamma
    return refit(
        rows, y, fit.gamma, start.n_effective, labels=labels, positive=settings.positive, tol=1e-11, max_iter=5000
    )


def _prior(mean: Array, gamma: FloatArray) -> float:
    return float(np.sum((np.abs(mean) ** 2).T / gamma)) if gamma.size else 0.0


def model_prior(size: int, n_features: int, n_samples: float) -> float:
    """-2 log prior of a support: uniform over sizes, then over supports; corrected for the noise that was fitted."""
    ways = float(gammaln(n_features + 1) - gammaln(size + 1) - gammaln(n_features - size + 1))
    return 2.0 * ways * n_samples / max(n_samples - size - 2, 1)


def learn_noise(start: Start, y: Array, settings: Settings) -> SBLResult:
    """Fit along falling noise variances, refit each support with its noise, and return the best by evidence."""
    phi, norms, groups = start.problem.dictionary, start.column_norms, start.groups
    n_features = int(np.count_nonzero(start.norms > 0))
    total = float(np.vdot(y, y).real)
    inner: Inner = make_inner(start, y, settings)
    rough = settings.with_accuracy(max(settings.tol, 1e-3), min(settings.max_iter, 60))
    candidates: list[NoiseCandidate] = []
    history: list[dict[str, Any]] = []
    seen: dict[tuple[int, ...], int] = {}
    best: tuple[float, IndexArray, Refit] | None = None
    since = chosen = 0
    lam = start.lambda_max
    if total > 0 and lam > 0:
        for _ in range(_MOST_STEPS):
            found = run(start, y, lam, rough, inner=inner, quiet=True)
            support = found.support
            history += [{**record, "lam": lam} for record in found.history]
            if support.size > start.n_effective // 3 and candidates:
                break  # so large a support can follow all of the noise, above all where rows repeat
            key = tuple(support.tolist())
            if key not in seen:
                rows = phi.columns(support).T
                labels = None if groups is None else groups.labels()[support]
                fit = refit(rows, y, found.gamma[support], start.n_effective, labels=labels, positive=settings.positive)
                size = fit.kept.size if labels is None else np.unique(labels[fit.kept]).size
                score = fit.loss + model_prior(size, n_features, start.n_effective)
                seen[key] = len(candidates)
                if best is None or score < best[0]:
                    best, since, chosen = (score, support[fit.kept], fit), -1, len(candidates)
                candidates.append(NoiseCandidate(lam, int(size), fit.lam, score))
            since += best is not None and best[1].size > 0
            past = best is not None and lam <= best[2].lam  # the path has come to the noise of its best support
            if since >= _PATIENCE and past:
                break
            lam *= _STEP
            if lam < 1e-12 * total:  # below, the model is singular to double precision
                break
    coef = np.zeros((norms.size, *y.shape[1:]), dtype=np.result_type(start.problem.correlations, np.float64))
    gamma = np.zeros(norms.size)
    if best is None:
        raise ValueError(
            "lam cannot be learned from a target that is zero or that no column reaches; give lam a number instead"
        )
    _, index, fit = best
    fit = _polish(phi.columns(index).T, y, fit, start, settings)
    index = index[fit.kept]
    first = candidates[chosen]
    candidates[chosen] = replace(first, lam=fit.lam, score=first.score + fit.loss - best[2].loss)
    coef[index], gamma[index] = fit.mean, fit.gamma
    residual = y - phi.apply(coef)
    return SBLResult(
        coef=coef,
        gamma=gamma,
        lam=fit.lam,
        loss=fit.loss,
        converged=fit.converged,
        n_iter=len(history),
        passes=phi.passes,
        history=history,
        residual=residual,
        n_effective=start.n_effective,
        noise_path=tuple(candidates),
        _dictionary=phi,
        _y=y,
        _groups=groups,
    )
