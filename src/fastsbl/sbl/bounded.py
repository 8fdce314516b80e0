"""Inner problems at the cost of a few columns: solve on the columns in hand, certify the rest by bounds.

After the first inner problem most features are provably out of the running: a lower bound on their weight
exceeds an upper bound on their correlation with the residual. How far the residual and the model may move
before that proof expires is known in advance (see `fastsbl.sbl.look`), so most outer iterations look at a handful of
features and do not touch the dictionary at all.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dsyevd, dtrtri

from fastsbl._base.parallel import run_in_chunks
from fastsbl._base.types import Array, BoolArray, FloatArray, IndexArray
from fastsbl.lasso.certified import CertifiedLasso
from fastsbl.lasso.correlations import Correlations
from fastsbl.lasso.scalar import KnownLimits, take_first
from fastsbl.lasso.working_set import WorkingSet
from fastsbl.sbl import _kernels
from fastsbl.sbl.guarded import Followed
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.look import Look
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.problem import DualProblem, PrimalPoint, dual_scale, duality_gap
from fastsbl.screening.rules import Rule

__all__ = ["BoundedInner"]

_RELATIVE = 1e-9  # every comparison of bounds leaves this much room for rounding


def _inverse_factor(matrix: FloatArray) -> FloatArray | None:
    """L^-1 of a positive definite L L', or None where rounding has made it singular."""
    factor, failed = dpotrf(matrix, lower=1, clean=1)
    return None if failed else np.asarray(dtrtri(factor, lower=1)[0])


def _eigenvalues(matrix: FloatArray) -> FloatArray:
    values, _, failed = dsyevd(matrix, compute_v=0)
    assert not failed
    return np.asarray(values)


def _eigenvectors(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors, failed = dsyevd(matrix)
    assert not failed
    return values, vectors


class BoundedInner:
    """The inner problems of one fit, real data and one target.

    Parameters
    ----------
    problem : DualProblem
        Dictionary, target, norms and ``Phi' y``; its limits are not used.
    y : array of shape (N,)
        The target.
    rules : tuple of Rule
        Screening rules, run while the first inner problem is solved.

    The columns in hand and the products in memory stay from one noise variance to the next.
    """

    full_pass_share = 0.05
    """Above this share of features in doubt, one whole read is made, whose product sharpens all bounds."""

    worth = 4.0
    """Directions of the model with a variance above this many noise variances are read along with a residual."""

    least_directions, most_directions = 8, 128
    """Directions whose products are kept: as many as memory allows, see `_room_for_products`."""

    products_share, products_bytes, vectors = 0.35, 2**28, 16
    """Memory that products may take, as a share of the dictionary's and in bytes (if that is enough for the least).

    The share includes some ``vectors`` of length n that are there in any case."""

    columns_share, columns_bytes = 0.05, 2**20
    """Memory for columns that are looked at together, as a share of the dictionary's, and at least so many bytes."""

    spare = (2.0, 1.05)
    """Room that carried bounds must leave, in last steps and as a factor, or they are computed anew."""

    rooms = np.array(
        [
            (64.0, 1.02, 0.005),
            (16.0, 1.04, 0.01),
            (8.0, 1.1, 0.05),
            (8.0, 1.01, 0.03),
            (4.0, 1.06, 0.05),
            (2.0, 1.05, 0.05),
            (2.0, 1.03, 0.05),
        ]
    )
    """How far a guard may let the residual move (in last steps) and the weights shrink (a factor), and the largest
    share of features it may evaluate for that; best first."""

    def __init__(self, problem: DualProblem, y: FloatArray, rules: tuple[Rule, ...]) -> None:
        self.problem = problem
        self.y = y
        self.lam = np.nan
        # in a union, tests of the target alone would read the dictionary twice to spare the one read that certifies
        self.rules = tuple(rule for rule in rules if rule.dynamic) or rules
        self.phi = problem.dictionary
        self.ws = WorkingSet(self.phi, y)
        self._room = self._room_for_products()
        data_bytes = self.phi.column_size * self.phi.n_features * self.phi.dtype.itemsize
        room = max(self.columns_share * data_bytes, self.columns_bytes) / (8 * self.phi.n_samples)
        self._at_once = int(np.clip(room, 16, 4096))  # columns to take out of the dictionary at a time
        self.correlations = Correlations(
            self.phi, y, problem.correlations, problem.norms, problem.slack, most_directions=self._room
        )
        self.loop = CertifiedLasso(self.ws, self.correlations, positive=problem.positive)
        n = problem.norms.size
        self._bounded_at, self._bounded_with = y, 0
        self._upper, self._lower, self._found = np.empty(n), np.empty(n), np.empty(n, dtype=np.intp)
        self._members = np.full(n, -1)  # 0 where the model has a feature, while a look is stored
        self.look: Look | None = None
        self.residual = y
        self._shares: dict[str, float] = {}
        self._singles = 0
        self._crowded = False  # whether the last look left so many features in doubt that a whole read is due

    def _room_for_products(self) -> int:
        """Directions whose products fit beside the dictionary."""
        phi = self.phi
        share = self.products_share * phi.column_size * phi.dtype.itemsize / 8 - self.vectors
        room = min(int(share), self.products_bytes // (8 * phi.n_features), self.most_directions)
        return max(room, self.least_directions)

    # -- the interface of an inner solver ---------------------------------------------------------
    def begin(self, lam: float) -> None:
        """Start a fit at this noise variance."""
        self.lam = lam
        self.look = None
        self._crowded = False
        self.residual = self.y

    def first(self, weights: FloatArray) -> InnerResult:
        """Solve with all weights known."""
        limits = self.lam * weights
        limits[self.problem.norms == 0.0] = np.inf
        problem = self.problem.with_limits(limits)
        self._shares, self._singles = {}, 0
        rejected: BoolArray | None = None
        for rule in self.rules:
            mask = rule.test(problem)
            self._shares[mask.rule] = mask.share
            rejected = mask.rejected if rejected is None else rejected | mask.rejected
        if problem.target_is_feasible:
            self.ws.theta[:] = 0.0
            self.ws.limits[:] = np.inf
            return InnerResult(
                np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0), self.y, 0.0, 0.0, dict(self._shares), 0
            )
        take_first(self.ws, problem, rejected, None)
        self.residual = self._solve_first(problem, rejected)
        return self._result(self.residual)

    def _solve_first(self, problem: DualProblem, rejected: BoolArray | None) -> FloatArray:
        """Solve with the limits of ``problem`` and return the residual."""
        known, seen = KnownLimits(problem.limits), 0
        while True:
            found = self.loop.step(known, rejected, batch=max(64, self.ws.support().size // 2))
            self._singles += found.checked
            if found.violators == 0:
                break
            if self.loop.last_full is not None and self.loop.full_reads > seen:
                seen = self.loop.full_reads
                point = PrimalPoint(*self.loop.last_full, found.penalty)
                for rule in self.rules:
                    if rule.dynamic:
                        mask = rule.test(problem, point)
                        self._shares[mask.rule] = mask.share
                        rejected = mask.rejected if rejected is None else rejected | mask.rejected
        return found.residual

    def resume(self, gamma: FloatArray) -> InnerResult:
        """Solve with the weights of a model given by gamma (of all features)."""
        index = np.flatnonzero(gamma)
        ws = self.ws
        ws.add(index[ws.position[index] < 0])
        active = ws.position[index]
        model = SupportModel(ws.rows(active), ws.gram[active[:, None], active], gamma[index], self.lam)
        return self.next(model, active)

    def next(self, model: SupportModel, active: IndexArray) -> InnerResult:
        """Solve with the weights of ``model``, whose features are at ``active`` in the working set."""
        ws = self.ws
        ws.limits[:] = np.inf
        ws.limits[active] = self.lam * model.own_weights()
        self._shares, self._singles = {}, 0
        if self.look is not None:
            self.look.move_to(model, active, ws)
        evaluated = False
        while True:
            ws.solve(positive=self.problem.positive)
            residual = ws.residual()
            if self.look is not None and self.look.covers(residual):
                more = self._check_guarded(model, residual, self.look)
            else:
                more = self._check_all(model, residual, again=evaluated)
                evaluated = True
            if not more:
                break
        if evaluated:
            self._remember(model, active, residual)
        self.residual = residual
        return self._result(residual)

    def follow(
        self, found: InnerResult, *, tol: float, n_effective: float, most_steps: int
    ) -> tuple[InnerResult, Followed] | None:
        """Run outer iterations in compiled code while the guard holds; None if it does not hold for one."""
        ws = self.ws
        guarded = None if self.look is None else self.look.gather(ws, self.y, self.problem.norms)
        if guarded is None:
            return None
        followed = guarded.follow(
            ws.index[found.active],
            found.theta,
            found.weights,
            found.residual,
            positive=self.problem.positive,
            tol=tol,
            n_effective=n_effective,
            most_steps=most_steps,
        )
        if followed is None:
            return None
        ws.add(followed.index[ws.position[followed.index] < 0])
        active = ws.position[followed.index]
        order = np.argsort(active)
        active, theta, weights = active[order], followed.theta[order], followed.weights[order]
        ws.limits[:] = np.inf
        ws.limits[active] = self.lam * weights
        ws.theta[:] = 0.0
        ws.theta[active] = theta
        self.residual = followed.residual
        penalty = float(np.abs(theta) @ ws.limits[active])
        *_, gap, singles = followed.records[-1].tolist()
        return InnerResult(active, theta, weights, followed.residual, penalty, gap, {}, int(singles)), followed

    def describe(self, found: InnerResult) -> tuple[IndexArray, SupportModel]:
        """Column numbers and model of a solution."""
        ws, active = self.ws, found.active
        gamma = np.abs(found.theta) / found.weights
        model = SupportModel(ws.rows(active), ws.gram[active[:, None], active], gamma, self.lam)
        return ws.index[active], model

    def finish(self, model: SupportModel, active: IndexArray) -> float:
        """Look at every feature once more, for the model as it is now: the largest |phi_i'r|/(lam u_i) outside it.

        Features that bounds clear are below 1 and are not evaluated; where bounds leave too many, all are read. Where
        gamma = 0 nothing is read: the residual is y, and the weights are those of the noise alone.
        """
        if active.size == 0:
            norms = self.problem.norms
            sizes = np.divide(self._size(self.problem.correlations), norms, out=np.zeros(norms.size), where=norms > 0)
            return float(sizes.max(initial=0.0)) / float(np.sqrt(self.lam))
        residual = self.ws.residual()
        if not residual.any():
            return 0.0
        self._members[self.ws.index[active]] = 0
        index = self._open(model, active, residual)
        self._members[self.ws.index[active]] = -1
        worst = 0.0
        for low in range(0, index.size, self._at_once):
            rows = self._rows(index[low : low + self._at_once])
            worst = max(worst, float(np.max(self._size(rows @ residual) / (self.lam * model.weights(rows)))))
        return worst

    def _open(self, model: SupportModel, active: IndexArray, residual: FloatArray) -> IndexArray:
        """Features outside the model that nothing yet shows to be below their limit."""
        look, index = self.look, self.ws.index
        if look is not None:
            look.move_to(model, active, self.ws)
            if look.covers(residual) and look.danger is not None:
                in_play = np.union1d(index[look.active], look.danger)
                return in_play[self._members[in_play] < 0]
        return self._look_again(model, active, residual)

    def _look_again(self, model: SupportModel, active: IndexArray, residual: FloatArray) -> IndexArray:
        """Bound all weights from below anew, and all correlations from above, by a whole read if it takes that."""
        self._bound(model, residual, again=False)
        doubtful = self._doubtful(self._members)
        if doubtful.size <= self.full_pass_share * self.phi.n_features and self.phi.cheap_columns:
            return doubtful
        self._take_in(self._read_all(model, residual), residual)
        self._bound(model, residual, again=True)
        return self._doubtful(self._members)

    def _take_in(self, products: FloatArray, residual: FloatArray) -> None:
        """Sharpen the bounds on correlations by a whole read."""
        error = self.problem.slack * float(np.linalg.norm(residual))
        np.minimum(self._upper, self._size(products) + error * self.problem.norms, out=self._upper)

    # -- looking at features -----------------------------------------------------------------------
    def _result(self, residual: FloatArray) -> InnerResult:
        ws = self.ws
        used = ws.support()
        theta, limits = ws.theta[used].copy(), ws.limits[used]
        penalty = float(np.abs(theta) @ limits)
        active = np.isfinite(ws.limits) & (ws.limits > 0)
        size = ws.g[active] if self.problem.positive else np.abs(ws.g[active])
        ratio = float(np.max(size / ws.limits[active], initial=0.0))
        t = min(dual_scale(residual, self.y, ratio, self.problem.positive), 1.0)
        gap = max(duality_gap(0.5 * float(residual @ residual) + penalty, t * residual, self.y), 0.0)
        return InnerResult(used, theta, limits / self.lam, residual, penalty, gap, dict(self._shares), self._singles)

    def _size(self, values: FloatArray) -> FloatArray:
        return values if self.problem.positive else np.abs(values)

    def _wake(self, model: SupportModel, lower: FloatArray, factor: float) -> bool:
        """Let idle columns in hand take part again if they violate their limit."""
        ws = self.ws
        idle = np.flatnonzero(ws.idle())
        bound = self.lam / factor * lower[ws.index[idle]]
        over = idle[self._size(ws.g[idle]) > bound * (1.0 - _RELATIVE)]
        if over.size == 0:
            return False
        self._singles += over.size
        weights = model.weights(ws.rows(over))
        if lower is self._lower:
            lower[ws.index[over]] = weights
        limits = self.lam * weights
        wake = self._size(ws.g[over]) > limits * (1.0 + 1e-12)
        ws.limits[over[wake]] = limits[wake]
        return bool(wake.any())

    def _check_guarded(self, model: SupportModel, residual: FloatArray, look: Look) -> bool:
        """Look at the columns in hand and those in danger; whether any joined."""
        ws = self.ws
        if self._wake(model, look.lower, look.factor):
            return True
        assert look.danger is not None
        assert look.rows is not None
        if look.danger.size == 0:
            return False
        values = self._size(look.rows @ residual)
        over = values >= self.lam * look.lower[look.danger] / look.factor * (1.0 - _RELATIVE)
        over &= ws.position[look.danger] < 0
        return bool(over.any()) and self._join(model, look.danger[over], look.rows[over], values[over])[0]

    def _join(self, model: SupportModel, index: IndexArray, rows: Array, values: FloatArray) -> tuple[bool, FloatArray]:
        """Evaluate features singly and take in those that violate; whether any did, and the exact weights."""
        self._singles += index.size
        weights = model.weights(rows)
        violate = values > self.lam * weights * (1.0 + 1e-12)
        self.ws.add(index[violate], self.lam * weights[violate])
        return bool(violate.any()), weights

    def _bound_correlations(self, residual: FloatArray, index: IndexArray) -> None:
        """Sharpen the bounds on some correlations, from the products in memory."""
        seen = self.correlations
        a, perpendicular = seen.split(residual)
        error = seen.product_error(a, perpendicular)

        def task(start: int, stop: int) -> None:
            _kernels.bound_correlations(
                index, seen.products, seen.count, a, seen.rest, perpendicular, error, self.problem.norms,
                self.problem.positive, self._upper, start, stop,
            )  # fmt: skip

        run_in_chunks(task, index.size, 2.0 * seen.count * index.size)

    def _bound_weights(self, model: SupportModel, index: IndexArray) -> None:
        """Sharpen the bounds on some weights, from the products in memory, if the model is regular to rounding."""
        seen, size = self.correlations, model.size
        k = seen.count
        inside, outside = np.empty((k, size)), np.empty_like(model.scaled)  # Q'B, and as rows what Q leaves of B
        gram = np.empty((size, size))
        _kernels.leave_out(model.scaled, seen.basis, inside, outside, gram)
        widest, across_norm = self.lam, 0.0
        growth = 1.0 + float(np.trace(model.inner)) / self.lam  # bounds the condition of S
        system = 1e-15 * (k + size + 8) * growth  # rounding of what is solved with S_QQ, relative
        low_rank = 2 * size < k
        first, across = np.zeros((0, k)), np.zeros((0, k))
        if size:
            back = _inverse_factor(self.lam * np.eye(size) + inside.T @ inside)  # I - B'Q S_QQ^-1 Q'B = lam back'back
            if back is None:
                return
            widest += self.lam * max(float(_eigenvalues(back @ gram @ back.T)[-1]), 0.0)
            widest = widest * (1.0 + system) + 1e-12 * float(np.trace(gram)) + 1e-15 * float(np.trace(model.inner))
            long = back.T @ (back @ inside.T)  # z has the length of B_outside times this times c
            if size < k:
                values, vectors = _eigenvectors(gram)
                across = (vectors * np.sqrt(np.maximum(values, 0.0))).T @ long
            else:
                values, vectors = _eigenvectors(long.T @ gram @ long)
                across = (vectors * np.sqrt(np.maximum(values, 0.0))).T
            across_norm = float(np.linalg.norm(across))
            if low_rank:
                first = back @ inside.T  # c'S_QQ^-1 c = (|c|^2 - |first c|^2) / lam
        if not low_rank:
            factor = _inverse_factor(self.lam * np.eye(k) + inside @ inside.T)  # c'S_QQ^-1 c = |factor c|^2
            if factor is None:
                return
            first = factor
        first, across = np.ascontiguousarray(first), np.ascontiguousarray(across)

        def task(start: int, stop: int) -> None:
            _kernels.bound_weights(
                index, seen.products, k, seen.rest, first, low_rank, across, across_norm, widest, self.lam,
                seen.error, seen.slack, system, self.problem.norms, self._lower, start, stop,
            )  # fmt: skip

        run_in_chunks(task, index.size, 4.0 * k * (first.shape[0] + across.shape[0] + 2) * index.size)

    def _doubtful(self, skip: IndexArray, drift: float = 0.0, widening: float = 1.0 + _RELATIVE) -> IndexArray:
        found = _kernels.over_limit(
            self._upper, self._lower, self.problem.norms, self.lam, drift, widening, skip, self._found
        )
        return self._found[:found].copy()

    def _check_all(self, model: SupportModel, residual: FloatArray, *, again: bool) -> bool:
        """Look at every feature through bounds and read those in doubt; whether any joined."""
        ws, phi = self.ws, self.phi
        doubtful = None
        if again or not self._crowded:
            self._bound(model, residual, again=again)
            if self._wake(model, self._lower, 1.0):
                return True
            doubtful = self._doubtful(ws.position)
            if doubtful.size == 0:
                return False
            self._crowded = doubtful.size > self.full_pass_share * phi.n_features
        if doubtful is None or not phi.cheap_columns or self._crowded:
            products = self._read_all(model, residual)
            if doubtful is None:
                self._bound(model, residual, again=False)
            self._take_in(products, residual)
            if doubtful is not None:
                self._bound(model, residual, again=True)
            if doubtful is None and self._wake(model, self._lower, 1.0):
                return True
            doubtful = self._doubtful(ws.position)
            self._crowded = doubtful.size > self.full_pass_share * phi.n_features
        joined, length = False, float(np.linalg.norm(residual))
        for low in range(0, doubtful.size, self._at_once):
            part = doubtful[low : low + self._at_once]
            products, error, rows = self._look_at(part, residual[None])
            self._upper[part] = self._size(products[:, 0]) + error * length * self.problem.norms[part]
            over = self._upper[part] >= self.lam * self._lower[part] * (1.0 - _RELATIVE)
            if over.any():
                part, rows = part[over], self._rows(part[over]) if rows is None else rows[over]
                values = self._size(rows @ residual)
                some, self._lower[part] = self._join(model, part, rows, values)
                joined |= some
        return joined

    def _read_all(self, model: SupportModel, residual: FloatArray) -> FloatArray:
        """``Phi' r`` in one read, and with it the products with what the directions so far miss of the model most."""
        seen = self.correlations
        if model.size <= 1 or not self.phi.cheap_columns:
            products = self.phi.correlate(residual)
            seen.add(residual, products)
            return products
        basis = seen.basis
        outside = model.scaled - (model.scaled @ basis.T) @ basis
        values, vectors = np.linalg.eigh(outside @ outside.T)
        extra = min(max(1, int(np.count_nonzero(values > self.worth * self.lam))), self._room // 2)
        leading = (vectors[:, -extra:].T @ outside) / np.sqrt(np.maximum(values[-extra:, None], 1e-300))
        together = self.phi.correlate(np.vstack([residual, leading]).T)
        products = np.ascontiguousarray(together[:, 0])
        seen.add(residual, products)
        for k in range(leading.shape[0]):
            seen.add(leading[k], np.ascontiguousarray(together[:, k + 1]))
        return products

    def _bound(self, model: SupportModel, residual: FloatArray, *, again: bool) -> None:
        """Bound all correlations and weights: carry on what is known, and sharpen it where that does not settle it.

        ``again`` says that the model is that of the last call, and only the residual may have moved.
        """
        norms, factor, drift = self.problem.norms, 1.0, 0.0
        if again:
            old_upper, old_lower = self._upper, self._lower
            drift = float(np.linalg.norm(residual - self._bounded_at))
        elif self.look is not None:
            old_upper, old_lower, factor = self.look.upper, self.look.lower, self.look.factor
            drift = self.look.drift(residual)
        else:  # nothing yet but the size of the model
            self._upper[:] = np.inf
            np.divide(norms, np.sqrt(self.lam + np.trace(model.inner)) * (1.0 + _RELATIVE), out=self._lower)
            old_upper, old_lower = self._upper, self._lower
        room, widening = self.spare
        room *= float(np.linalg.norm(residual - self.residual))
        found = _kernels.carry(
            old_upper, old_lower, norms, factor, drift, self.lam, room, widening, self._upper, self._lower, self._found
        )
        if found:
            index = self._found[:found].copy()
            self._bound_correlations(residual, index)
            if not again or self._bounded_with != self.correlations.added:
                found = _kernels.still_open(
                    index, self._upper, self._lower, norms, self.lam, 0.0, widening, self._found
                )
                if found:
                    self._bound_weights(model, self._found[:found].copy())
        self._bounded_at, self._bounded_with = residual, self.correlations.added

    def _remember(self, model: SupportModel, active: IndexArray, residual: FloatArray) -> None:
        """Keep this look at all features, with room for the coming steps if only few are then in danger.

        Features that bounds do not clear within that room are looked at singly, once.
        """
        step = float(np.linalg.norm(residual - self.residual))
        upper, lower, ws = self._upper, self._lower, self.ws
        upper[ws.index] = self._size(ws.g)
        self._members[ws.index[active]] = 0
        room = self._best_room(self._members, step)
        spare = (
            (np.empty(upper.size), np.empty(upper.size)) if self.look is None else (self.look.upper, self.look.lower)
        )
        self.look = Look(residual, model, active, upper, lower)
        if room is not None:
            drift, widening = room
            index = self._doubtful(self._members, drift, widening)
            products, error, rows = self._look_at(index, np.vstack([residual, model.scaled]))
            self._singles += index.size
            norms = self.problem.norms[index]
            upper[index] = self._size(products[:, 0]) + error * float(np.linalg.norm(residual)) * norms
            lower[index] = np.maximum(lower[index], model.weights_at_least(norms, products[:, 1:], error))
            danger = (upper[index] + norms * drift) * widening >= self.lam * lower[index] * (1.0 - _RELATIVE)
            self.look.guard(index[danger], self._rows(index[danger]) if rows is None else rows[danger], drift, widening)
        self._members[ws.index[active]] = -1
        self._upper, self._lower = spare  # to be written before they are read

    def _rows(self, index: IndexArray) -> Array:
        """Columns as the rows of an array."""
        return np.ascontiguousarray(self.phi.columns(index).T)

    def _look_at(self, index: IndexArray, vectors: FloatArray) -> tuple[FloatArray, float, Array | None]:
        """Products of some columns with vectors (given as rows), and their rounding error per unit of both norms.

        The columns come with them if they had to be taken out: where that is the only way, or more exact.
        """
        if self.phi.cheap_columns and self.phi.dtype == np.float64:
            return self.phi.correlate(vectors.T, index), self.problem.slack, None
        rows = self._rows(index)
        return rows @ vectors.T, (64 + rows.shape[1]) * float(np.finfo(np.float64).eps), rows

    def _best_room(self, outside: IndexArray, step: float) -> tuple[float, float] | None:
        """The best room that may be had for its price."""
        drifts, widenings = self.rooms[:, 0] * step, self.rooms[:, 1]
        best = _kernels.first_affordable(
            self._upper, self._lower, self.problem.norms, self.lam, drifts, widenings,
            np.minimum(self.rooms[:, 2] * self.phi.n_features, self._at_once), outside,
        )  # fmt: skip
        return None if best < 0 else (float(drifts[best]), float(widenings[best]))
