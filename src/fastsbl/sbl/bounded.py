"""Inner problems at the cost of a few columns: solve on the columns in hand, certify the rest by bounds.

After the first inner problem most features are provably out of the running: a lower bound on their weight
exceeds an upper bound on their correlation with the residual. How far the residual and the model may move
before that proof expires is known in advance (see `fastsbl.sbl.look`), so most outer iterations look at a handful of
features and do not touch the dictionary at all.
"""

from __future__ import annotations

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray, IndexArray
from fastsbl.lasso.certified import CertifiedLasso
from fastsbl.lasso.correlations import Correlations
from fastsbl.lasso.scalar import KnownLimits, take_first
from fastsbl.lasso.working_set import WorkingSet
from fastsbl.sbl import _step_kernels
from fastsbl.sbl.bounds import FeatureBounds
from fastsbl.sbl.guarded import Followed
from fastsbl.sbl.inner import InnerResult
from fastsbl.sbl.look import Look
from fastsbl.sbl.model import SupportModel
from fastsbl.screening.problem import DualProblem, PrimalPoint
from fastsbl.screening.rules import Rule

__all__ = ["BoundedInner"]

_RELATIVE = 1e-9  # every comparison of bounds leaves this much room for rounding
_SURE = 1e-12  # and comparisons of exact values this much


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

    large = 64
    """Size of the first model above which its look at all features begins with a whole read."""

    worth = 4.0
    """Directions of the model with a variance above this many noise variances are read along with a residual."""

    least_directions, most_directions = 8, 128
    """Directions whose products are kept: as many as memory allows, see `_room_for_products`."""

    products_share, products_bytes, vectors = 0.35, 2**28, 16
    """Memory that products may take, as a share of the dictionary's and in bytes (if that is enough for the least).

    The share includes some ``vectors`` of length n that are there in any case."""

    columns_share, columns_bytes = 0.05, 2**20
    """Memory for columns that are looked at together, as a share of the dictionary's, and at least so many bytes."""

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
        self.bounds = FeatureBounds(problem, self.correlations)
        self._members = np.full(problem.norms.size, -1)  # 0 where the model has a feature, while a look is stored
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
        self.lam = self.bounds.lam = lam
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
        # the few directions known so far say little under a large model: read at once, do not bound twice
        self._crowded = self.ws.support().size > self.large
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
        ws, look, positive = self.ws, self.look, self.problem.positive
        self._shares, self._singles = {}, 0
        kept, at = (model, active) if look is None else (look.model, look.active)
        gram, _, limits, _, _, size, _ = ws.arrays
        factor = _step_kernels.set_out(
            gram, limits, size, active, model.gamma, model.rows, model.scaled, model.back, self.lam,
            at, kept.gamma, kept.scaled, kept.back,
        )  # fmt: skip
        ws.solve(positive=positive)
        if look is not None:
            look.factor = factor
        evaluated = False
        while True:
            residual = ws.residual()
            if look is not None and look.covers(residual):
                more = self._check_guarded(model, residual, look)
            else:
                more = self._check_all(model, residual, again=evaluated)
                evaluated = True
            if not more:
                break
            ws.solve(positive=positive)
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
            rows = np.ascontiguousarray(self.phi.columns(index[low : low + self._at_once]).T)
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
        doubtful = self.bounds.doubtful(self._members)
        if doubtful.size <= self.full_pass_share * self.phi.n_features and self.phi.cheap_columns:
            return doubtful
        self._take_in(self._read_all(model, residual), residual)
        self._bound(model, residual, again=True)
        return self.bounds.doubtful(self._members)

    def _take_in(self, products: FloatArray, residual: FloatArray) -> None:
        """Sharpen the bounds on correlations by a whole read."""
        self.bounds.take_in(self._size(products), self.problem.slack * float(np.linalg.norm(residual)))

    def _bound(self, model: SupportModel, residual: FloatArray, *, again: bool) -> None:
        """Bound all correlations and weights, see `FeatureBounds.update`."""
        step = float(np.linalg.norm(residual - self.residual))
        self.bounds.update(model, residual, self.look, step, again=again)

    # -- looking at features -----------------------------------------------------------------------
    def _result(self, residual: FloatArray) -> InnerResult:
        ws = self.ws
        used = ws.support()
        _, _, limits, theta, g, size, _ = ws.arrays
        penalty, gap = _step_kernels.sum_up(theta, limits, g, size, residual, self.y, self.problem.positive)
        weights = limits[used] / self.lam
        return InnerResult(used, theta[used], weights, residual, penalty, gap, dict(self._shares), self._singles)

    def _size(self, values: FloatArray) -> FloatArray:
        return values if self.problem.positive else np.abs(values)

    def _wake(self, model: SupportModel, lower: FloatArray, factor: float) -> bool:
        """Let idle columns in hand take part again if they violate their limit."""
        ws = self.ws
        _, _, limits, _, g, size, _ = ws.arrays
        found = np.empty(size, dtype=np.intp)
        count = _step_kernels.idle_over_limit(
            limits, ws.index, g, size, lower, self.lam / factor, self.problem.positive, found
        )
        if count == 0:
            return False
        over = found[:count]
        self._singles += count
        weights = _step_kernels.weights_of(ws.rows(over), model.scaled, model.back, self.lam)
        if lower is self.bounds.lower:
            lower[ws.index[over]] = weights
        exact = self.lam * weights
        wake = self._size(ws.g[over]) > exact * (1.0 + _SURE)
        ws.limits[over[wake]] = exact[wake]
        return bool(wake.any())

    def _check_guarded(self, model: SupportModel, residual: FloatArray, look: Look) -> bool:
        """Look at the columns in hand and those in danger; whether any joined."""
        if self._wake(model, look.lower, look.factor):
            return True
        assert look.danger is not None
        assert look.rows is not None
        if look.danger.size == 0:
            return False
        values = self._size(look.rows @ residual)
        over = values >= self.lam * look.lower[look.danger] / look.factor * (1.0 - _RELATIVE)
        over &= self.ws.position[look.danger] < 0
        if not over.any():
            return False
        self._singles += int(np.count_nonzero(over))
        limits = self.lam * _step_kernels.weights_of(look.rows[over], model.scaled, model.back, self.lam)
        violate = values[over] > limits * (1.0 + _SURE)
        self.ws.add(look.danger[over][violate], limits[violate])
        return bool(violate.any())

    def _check_all(self, model: SupportModel, residual: FloatArray, *, again: bool) -> bool:
        """Look at every feature through bounds and read those in doubt; whether any joined."""
        ws, phi = self.ws, self.phi
        doubtful = None
        if again or not self._crowded:
            self._bound(model, residual, again=again)
            if self._wake(model, self.bounds.lower, 1.0):
                return True
            doubtful = self.bounds.doubtful(ws.position)
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
            if doubtful is None and self._wake(model, self.bounds.lower, 1.0):
                return True
            doubtful = self.bounds.doubtful(ws.position)
            self._crowded = doubtful.size > self.full_pass_share * phi.n_features
        joined = False
        for low in range(0, doubtful.size, self._at_once):
            joined |= self._judge(model, residual, doubtful[low : low + self._at_once])
        return joined

    def _judge(self, model: SupportModel, residual: FloatArray, index: IndexArray) -> bool:
        """Look at features one by one and take in those that violate; whether any did."""
        violators, limits = np.empty(index.size, dtype=np.intp), np.empty(index.size)
        singles, found = _step_kernels.judge(
            *self.phi.columns_as_rows(index), index, residual, self.bounds.upper, self.bounds.lower, self.problem.norms,
            self._error, model.scaled, model.back, self.lam, self.problem.positive, violators, limits,
        )  # fmt: skip
        self._singles += singles
        self.ws.add(violators[:found], limits[:found])
        return bool(found)

    @property
    def _error(self) -> float:
        """Rounding of a product in double precision, per unit of both norms."""
        return (64 + self.phi.n_samples) * float(np.finfo(np.float64).eps)

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

    def _remember(self, model: SupportModel, active: IndexArray, residual: FloatArray) -> None:
        """Keep this look at all features, with room for the coming steps if only few are then in danger.

        Features that bounds do not clear within that room are looked at singly, once.
        """
        step = float(np.linalg.norm(residual - self.residual))
        bounds, ws, positive = self.bounds, self.ws, self.problem.positive
        bounds.upper[ws.index] = self._size(ws.g)
        self._members[ws.index[active]] = 0
        most = np.minimum(self.rooms[:, 2] * self.phi.n_features, self._at_once)
        room = bounds.best_room(self.rooms[:, 0] * step, self.rooms[:, 1], most, self._members)
        self._members[ws.index[active]] = -1
        spare = None if self.look is None else (self.look.upper, self.look.lower)
        self.look = Look(residual, model, active, bounds.upper, bounds.lower)
        if room is not None:
            drift, widening, index = room
            rows, places = self.phi.columns_as_rows(index)
            danger = np.empty(index.size, dtype=np.intp)
            count = _step_kernels.look_closely(
                rows, places, index, residual, bounds.upper, bounds.lower, self.problem.norms, self._error,
                model.scaled, model.back, model.trace, self.lam, drift, widening, positive, danger,
            )  # fmt: skip
            danger = danger[:count]
            self._singles += index.size
            self.look.guard(index[danger], rows[places[danger]], drift, widening)
        bounds.begin_anew(spare)
