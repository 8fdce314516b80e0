"""What a search among many features finds by chance: the charge for choosing, and the noise that choosing hides."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc, gammainccinv

from fastsbl._base.types import Array

__all__ = ["Chance", "distinct_rows"]

_LEAST = 0.5  # what every feature has to pay
_MOST = 3.0  # times the gain by chance: the most a feature has to pay


class Chance:
    """What a search among features that are all noise would find.

    A feature's power is that of its least-squares coefficient over its variance, of mean 1 for a feature that is
    noise; with many features the largest powers are the upper quantiles of their distribution.

    Parameters
    ----------
    n_features : int
        Features (or groups) to choose from.
    most : int
        The largest support that will be asked for.
    n_values : float
        Coefficients that share a gamma: targets, times columns in a group.
    is_complex : bool
        Whether coefficients are complex.
    """

    def __init__(self, n_features: int, most: int, n_values: float = 1.0, *, is_complex: bool = False) -> None:
        self.n_features = n_features
        self.n_values = n_values
        self._half = 0.5 * n_values * (2.0 if is_complex else 1.0)  # half the degrees of freedom
        most = min(n_features, most)
        count = np.arange(most)
        powers = gammainccinv(self._half, np.minimum((count + 0.5) / n_features, 1.0)) / self._half
        gains = n_values * np.where(powers > 1.0, powers - 1.0 - np.log(np.maximum(powers, 1.0)), 0.0)
        prior = (1.0 if is_complex else 2.0) * np.log(np.maximum((n_features - count) / (count + 1.0), 1.0))
        self._charges = np.concatenate([[0.0], np.cumsum(np.maximum(np.minimum(prior, _MOST * gains), _LEAST))])

    def charge(self, size: int, n_rows: float) -> float:
        """Charge for a support of this size, corrected for the noise that was fitted.

        Each feature pays its share of -2 log prior, uniform over sizes and over the supports of each size, but at most
        three times what a feature of noise of its rank would gain: where many features are wanted, a small one
        that is there by chance does less harm than the prior takes it for. At least half a unit is due.
        """
        return float(self._charges[size]) * n_rows / max(n_rows - size - 2, 1e-3)

    def hidden(self, size: int, weakest: float) -> float:
        """Noise that a support took away beyond its own coefficients, in units of the noise variance.

        From the weakest power that was let in follows how many of the ``size`` features are expected to be there by
        chance, and how much more power than average those have.
        """
        share = self._above(weakest)
        by_chance = min(size, (self.n_features - size) * share / (1.0 - share))
        if by_chance <= 0.0:
            return 0.0
        candidates = self.n_features - size + by_chance
        least = gammainccinv(self._half, by_chance / candidates) / self._half
        return self.n_values * max(candidates * self._power_above(float(least)) - by_chance, 0.0)

    def _above(self, power: float) -> float:
        return float(gammaincc(self._half, self._half * power))

    def _power_above(self, power: float) -> float:
        return float(gammaincc(self._half + 1.0, self._half * power))


def distinct_rows(rows: Array, y: Array) -> int:
    """How many samples differ in these features and the target, up to a factor: repeated rows tell nothing new."""
    targets = y.reshape(y.shape[0], -1).T
    weights = np.random.default_rng(7).standard_normal((2, rows.shape[0] + targets.shape[0]))
    one, two = weights[:, : rows.shape[0]] @ rows + weights[:, rows.shape[0] :] @ targets
    used = two != 0.0
    ratios = np.sort_complex(one[used] / two[used])
    return 1 + int(np.count_nonzero(np.abs(np.diff(ratios)) > 1e-9 * (1.0 + np.abs(ratios[1:]))))
