"""Which sources: adding, splitting, merging and dropping until the penalised fit cannot be improved."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from fastsbl._base.types import BoolArray, FloatArray, IntArray
from fastsbl.imaging.background import noise_variance_of
from fastsbl.imaging.detect import ScoreMap
from fastsbl.imaging.refine import Scene

logger = logging.getLogger(__name__)

__all__ = ["LEAST_NOISE", "Search"]

LEAST_NOISE = 1e-5  # standard deviation, as a share of the image's span, that an image without noise is taken to have
_JOINT = 8  # scenes of at most so many sources are always refined whole, with the level
_WHOLE = 60  # scenes of at most so many sources are polished whole, with the level
_CROWD = 10  # most sources that move in one attempt of a larger scene
_REACH = 1.75  # sources closer than this times the sum of their widths are refined together
_LIBERAL = 0.5  # share of the threshold from which a place on the pixel grid is tried off the grid
_HOPEFUL = 0.15  # share of the threshold that a split must promise to first order to be tried
_DOUBTFUL = 4.0  # thresholds that leaving out a source must cost to first order for it to be beyond doubt
_BRIGHT = 100.0  # thresholds of gain above which what is left of bright sources could be taken for faint ones
_NEIGHBOURS = 3  # that give way in first-order estimates
_ROUNDS = 40


class Search:
    """Minimise chi-square + threshold * (number of sources) over sources of any number, place, flux and width.

    Parameters
    ----------
    scene : Scene
        The image; `scene.weight` holds inverse variances up to the factor learned here.
    threshold : float
        Price of a source, in units of chi-square.
    learn_noise : bool
        Whether the weights are known only up to a factor.
    with_level : bool
        Whether the constant is fitted.
    max_sources : int
        Most sources.
    variance_of : callable, optional
        Variance of each pixel as a function of the model image (sources and level), for noise that follows the
        light. The weights are then computed anew in every round.
    where : ndarray of bool, optional
        Pixels in which new sources may be placed; everywhere by default.
    """

    def __init__(
        self,
        scene: Scene,
        *,
        threshold: float,
        learn_noise: bool,
        with_level: bool,
        max_sources: int,
        variance_of: Callable[[FloatArray], FloatArray] | None = None,
        where: BoolArray | None = None,
    ) -> None:
        self.scene = scene
        self.threshold = threshold
        self.learn_noise = learn_noise
        self.with_level = with_level
        self.variance_of = variance_of
        self.where = where
        self.base_weight = scene.weight.copy()
        self.n_valid = int(np.count_nonzero(self.base_weight))
        room = (self.n_valid // 3 - int(with_level)) // scene.shape.n_par
        self.max_sources = max(0, min(max_sources, room))
        self._score: ScoreMap | None = None
        self.variance = 1.0
        self.chi2 = 0.0
        self.converged = False
        self._refused: dict[tuple[int, ...], float] = {}
        self._tested: set[tuple[int, ...]] = set()

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Search until nothing helps any more."""
        trusting = not self.learn_noise
        for number in range(_ROUNDS):
            self._update_noise(final=trusting)
            changed = self._add()
            changed |= self._split()
            changed |= self._drop()
            self.polish()
            logger.debug("round %d: %d sources, variance %.4g", number, self.scene.n, self.variance)
            if not changed:
                if trusting:
                    self.converged = True
                    return
                trusting = True
            elif number > _ROUNDS // 2:
                trusting = True

    def _update_noise(self, *, final: bool) -> None:
        scene = self.scene
        if self.variance_of is not None:
            weight = np.where(self.base_weight > 0, 1.0 / self.variance_of(scene.model()), 0.0)
            if np.abs(weight - scene.weight).max() > 0.01 * weight.max():
                self._tested.clear()
                self._refused.clear()
                scene.weight = weight
                self._score = None
        if self.learn_noise:
            free = self.n_valid - scene.n * scene.shape.n_par - int(self.with_level)
            whole = float(np.vdot(self.base_weight * scene.residual, scene.residual)) / max(free, 1)
            variance = whole
            if not final:
                valid = self.base_weight > 0
                whitened = scene.residual * np.sqrt(self.base_weight)
                fine = noise_variance_of(whitened, None if valid.all() else valid)
                if fine > 0:
                    variance = min(whole, fine)
            span = float(np.ptp(scene.data[self.base_weight > 0])) if self.n_valid else 0.0
            least = (LEAST_NOISE * span) ** 2 * float(self.base_weight.max(initial=0.0))
            variance = max(variance, least, 1e-300)
            if abs(variance - self.variance) > 0.01 * self.variance:
                self._tested.clear()
                self._refused.clear()
            self.variance = variance
            scene.weight = self.base_weight / variance
        self.chi2 = self._chi2()

    @property
    def score(self) -> ScoreMap:
        """Gains of one more source; made when it is asked for, since large frames never ask for the whole."""
        if self._score is None:
            weight = self.base_weight if self.variance_of is None else self.scene.weight
            self._score = ScoreMap(self.scene.shape, weight, with_level=self.with_level)
        return self._score

    def _chi2(self) -> float:
        return float(np.vdot(self.scene.weight * self.scene.residual, self.scene.residual))

    # --- moves ----------------------------------------------------------------------------------------------

    def around(self, rows: FloatArray) -> IntArray:
        """Sources that overlap with any of these, nearest first, all of them in a small scene."""
        scene = self.scene
        if scene.n <= _JOINT:
            return np.arange(scene.n)
        dx = scene.par[:, 0, None] - rows[:, 0]
        dy = scene.par[:, 1, None] - rows[:, 1]
        relative = (np.hypot(dx, dy) / (scene.par[:, 3, None] + rows[:, 3])).min(axis=1)
        near = np.flatnonzero(relative <= _REACH)
        return near[np.argsort(relative[near], kind="stable")[:_CROWD]]

    def attempt(self, drop: IntArray, add: FloatArray) -> bool:
        """Exchange sources, refit around them, and keep the exchange if it pays."""
        scene = self.scene
        state = scene.snapshot()
        touched = np.vstack([scene.par[drop], add])
        if drop.size:
            scene.remove(drop)
        if add.shape[0]:
            scene.append(add)
        active = self.around(touched)
        joint = self.with_level and scene.n <= _JOINT
        price = self.threshold * (add.shape[0] - drop.size)
        scene.fit(active, with_level=joint, max_iter=12, tol=0.1)
        chi2 = self._chi2()
        if self.chi2 < chi2 + price < self.chi2 + 0.5 * self.threshold:
            scene.fit(active, with_level=joint, max_iter=40, tol=0.01)
            chi2 = self._chi2()
        if chi2 + price < self.chi2 - 1e-6:
            self.chi2 = chi2
            return True
        scene.restore(state)
        return False

    def _add(self) -> bool:
        changed = False
        while self.scene.n < self.max_sources:
            gains = self.score.gains(self.scene.residual, 1.0 / self.variance if self.learn_noise else 1.0)
            if self.where is not None:
                gains[:, ~self.where] = 0.0
            bright = bool(gains.max(initial=0.0) > _BRIGHT * self.threshold)
            found = self.score.candidates(gains, _LIBERAL * self.threshold)
            added: list[FloatArray] = []
            for x, y, sigma, gain in found:
                key = (round(x), round(y))
                if abs(self._refused.get(key, 0.0) - gain) < 0.03 * gain:
                    continue
                if any(np.hypot(x - a[0], y - a[1]) < 3.0 * (sigma + a[3]) for a in added):
                    continue
                row = np.array([[x, y, 0.0, sigma]])
                if self.attempt(np.empty(0, dtype=np.int64), row):
                    added.append(self.scene.par[-1].copy())
                    if self.scene.n <= _JOINT or self.scene.n >= self.max_sources:
                        break
                else:
                    self._refused[key] = gain
            if not added:
                break
            changed = True
            if bright:
                self.polish()
        return changed

    def _key(self, kind: int, k: int) -> tuple[int, ...]:
        x, y, flux, sigma = self.scene.par[k]
        near = self.around(self.scene.par[k : k + 1])
        return (
            kind,
            round(5 * x),
            round(5 * y),
            round(10 * np.log(max(flux, 1e-300))),
            round(10 * np.log(sigma)),
            int(near.size),
        )

    def _fresh(self, kind: int, k: int) -> bool:
        """Whether this has not been tried for the source as it is now; notes that it has."""
        key = self._key(kind, k)
        if key in self._tested:
            return False
        self._tested.add(key)
        return True

    def _split(self) -> bool:
        changed = False
        k = 0
        scene = self.scene
        while k < scene.n and scene.n < self.max_sources:
            if self._fresh(0, k) and self._split_one(k):
                changed = True
            k += 1
        return changed

    def _split_one(self, k: int) -> bool:
        x, y, flux, sigma = self.scene.par[k]
        angles = np.arange(8) * (np.pi / 4)
        beside = np.repeat(self.scene.par[k : k + 1], 8, axis=0)
        beside[:, 0] += sigma * np.cos(angles)
        beside[:, 1] += sigma * np.sin(angles)
        score, power = self.scene.scores(beside, self._nearest(k, include=True))
        gain = np.where(score > 0, score**2, 0.0) / np.where(power > 0, power, np.inf)
        gain = np.maximum(gain[:4], gain[4:])  # opposite directions start from the same pair
        for direction in np.argsort(-gain)[:2]:
            if gain[direction] < _HOPEFUL * self.threshold:
                break
            dx, dy = 0.7 * sigma * np.cos(angles[direction]), 0.7 * sigma * np.sin(angles[direction])
            width = max(0.85 * sigma, self.scene.shape.sigma_range[0])
            rows = np.array([[x - dx, y - dy, flux / 2, width], [x + dx, y + dy, flux / 2, width]])
            if self.attempt(np.array([k]), rows):
                return True
        return False

    def _nearest(self, k: int, *, include: bool) -> IntArray:
        """A source's nearest neighbours among those that overlap with it, with or without the source itself."""
        par = self.scene.par
        relative = np.hypot(par[:, 0] - par[k, 0], par[:, 1] - par[k, 1]) / (par[:, 3] + par[k, 3])
        near = np.flatnonzero(relative <= _REACH)
        near = near[np.argsort(relative[near], kind="stable")[: _NEIGHBOURS + 1]]
        return near if include else near[near != k]

    def _drop(self) -> bool:
        changed = False
        scene = self.scene
        k = scene.n - 1
        while k >= 0:
            if self._fresh(1, k) and self._doubtful(k) and (self._drop_one(k) or self._merge_one(k)):
                changed = True
                k = min(k, scene.n)
            k -= 1
        return changed

    def _doubtful(self, k: int) -> bool:
        """Whether the image might do without this source: to first order, its neighbours making up for it."""
        _, power = self.scene.scores(self.scene.par[k : k + 1], self._nearest(k, include=False))
        return bool(self.scene.par[k, 2] ** 2 * power[0] < _DOUBTFUL * self.threshold)

    def _drop_one(self, k: int) -> bool:
        return self.attempt(np.array([k]), np.empty((0, 4)))

    def _merge_one(self, k: int) -> bool:
        par = self.scene.par
        distance = np.hypot(*(par[:, :2] - par[k, :2]).T) / (par[:, 3] + par[k, 3])
        distance[k] = np.inf
        for other in np.argsort(distance)[:2]:
            if distance[other] > 1.5:
                break
            pair = par[[k, other]]
            flux = pair[:, 2].sum()
            share = pair[:, 2] / flux if flux > 0 else np.full(2, 0.5)
            centre = share @ pair[:, :2]
            spread = share @ (pair[:, 3] ** 2 + 0.5 * np.sum((pair[:, :2] - centre) ** 2, axis=1))
            sigma = np.clip(np.sqrt(spread), *self.scene.shape.sigma_range)
            if self.attempt(np.array([k, other]), np.array([[*centre, flux, sigma]])):
                return True
        return False

    # --- the end --------------------------------------------------------------------------------------------

    def polish(self, *, sweeps: int = 1, tol: float = 1e-2) -> None:
        """Refine all sources and the level."""
        scene = self.scene
        for _ in range(sweeps):
            if self.joint_fit:
                scene.fit(np.arange(scene.n), with_level=self.with_level, max_iter=60, tol=tol)
            else:
                for core, active in self.chunks():
                    del core
                    scene.fit(active, max_iter=15, tol=tol)
                self.fit_level()
        scene.rebuild()
        self.chi2 = self._chi2()

    @property
    def joint_fit(self) -> bool:
        """Whether all sources and the level are refined in one problem."""
        return self.scene.n <= _WHOLE

    def refresh(self, *, final: bool = False) -> None:
        """Bring the learned noise, the weights and chi-square up to date."""
        self._update_noise(final=final)

    def fit_level(self) -> None:
        """Set the constant to the weighted mean of what the sources leave."""
        total = float(self.scene.weight.sum())
        if self.with_level and total > 0:
            self.scene.set_level(self.scene.level + float(np.vdot(self.scene.weight, self.scene.residual)) / total)

    def chunks(self, size: int = 20) -> list[tuple[IntArray, IntArray]]:
        """Neighbourhoods: (core sources, core and all that overlap with them); every source is in one core."""
        par = self.scene.par
        left = np.ones(par.shape[0], dtype=np.bool_)
        out = []
        for k in np.lexsort((par[:, 0], np.round(par[:, 1] / 12.0))):
            if not left[k]:
                continue
            waiting = np.flatnonzero(left)
            distance = np.hypot(*(par[waiting, :2] - par[k, :2]).T)
            core = waiting[np.argsort(distance, kind="stable")[:size]]
            core = core[np.hypot(*(par[core, :2] - par[k, :2]).T) < 30.0 + 4 * par[k, 3]]
            left[core] = False
            dx = par[:, 0, None] - par[core, 0]
            dy = par[:, 1, None] - par[core, 1]
            relative = (np.hypot(dx, dy) / (par[:, 3, None] + par[core, 3])).min(axis=1)
            near = np.flatnonzero((relative <= _REACH) & (relative > 0))
            near = np.setdiff1d(near, core)
            out.append((core, np.concatenate([core, near])))
        return out
