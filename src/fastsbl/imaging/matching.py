"""One-to-one matching of found and true sources, and the scores that follow from it.

Positions are arrays of shape (n, 2) with columns x and y, in any one unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from fastsbl._base.brief import Brief
from fastsbl._base.types import FloatArray, IntArray
from fastsbl.imaging._assignment import assign
from fastsbl.imaging._checks import check_points, check_positive

__all__ = [
    "CompletenessPurity",
    "SourceMatch",
    "completeness_purity",
    "match_sources",
    "near_pairs",
    "nearest_distance",
]


def near_pairs(
    first: FloatArray, second: FloatArray, radius: float, p: float = 2.0
) -> tuple[IntArray, IntArray, FloatArray]:
    """All pairs of points within a radius.

    Parameters
    ----------
    first, second : ndarray of shape (m, 2), (n, 2)
        Points.
    radius : float
        Largest distance of a pair.
    p : float, default 2
        Which Minkowski distance.

    Returns
    -------
    i, j, distance : ndarray of shape (pairs,)
        Indices into the two lists, and the distances.

    Examples
    --------
    >>> import numpy as np
    >>> near_pairs(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [5.0, 0.0]]), 1.0)
    (array([0]), array([0]), array([0.]))
    """
    if first.shape[0] == 0 or second.shape[0] == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    pairs = cKDTree(first).sparse_distance_matrix(cKDTree(second), radius, p=p, output_type="ndarray")
    return pairs["i"].astype(np.int64), pairs["j"].astype(np.int64), np.asarray(pairs["v"], dtype=np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class SourceMatch(Brief):
    """A one-to-one matching of found and true sources.

    Attributes
    ----------
    pairs : ndarray of shape (k, 2)
        Index of the found and of the true source of each pair, in the order of the found ones.
    distances : ndarray of shape (k,)
        Distances of the pairs.
    n_found, n_true : int
        Number of sources on either side.
    tolerance : float
        Largest distance of a pair.

    Examples
    --------
    >>> match = match_sources([[1.0, 1.0], [8.0, 8.0]], [[1.3, 1.4]], tolerance=1.5)
    >>> match.precision, match.recall, round(match.rmse, 3)
    (0.5, 1.0, 0.5)
    """

    pairs: IntArray
    distances: FloatArray
    n_found: int
    n_true: int
    tolerance: float

    @property
    def n_matched(self) -> int:
        """Number of pairs."""
        return int(self.pairs.shape[0])

    @property
    def precision(self) -> float:
        """Share of the found sources that are true; nothing found: 1 if nothing is there, else 0."""
        return self._share(self.n_found)

    @property
    def recall(self) -> float:
        """Share of the true sources that are found; nothing there: 1 if nothing is found, else 0."""
        return self._share(self.n_true)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return self._share((self.n_found + self.n_true) / 2)

    @property
    def jaccard(self) -> float:
        """Pairs divided by pairs, misses and false alarms together."""
        return self._share(self.n_found + self.n_true - self.n_matched)

    @property
    def rmse(self) -> float:
        """Root mean square distance of the pairs; NaN without a pair."""
        return float(np.sqrt(np.mean(self.distances**2))) if self.n_matched else float("nan")

    def efficiency(self, alpha: float) -> float:
        """One score for detection and accuracy, as in the localisation-microscopy challenges.

        ``1 - sqrt((1 - jaccard)^2 + (alpha rmse)^2)``. The challenge of 2016 uses 0.01 per nm for lateral and
        0.005 per nm for axial errors (there as 1 and 0.5 with all in per cent). The score has no lower limit.

        Parameters
        ----------
        alpha : float
            Cost of a unit of distance, in units of 1 / distance.

        Returns
        -------
        float
            At most 1; without a pair 1 if both sides are empty, else 0.

        Examples
        --------
        >>> match_sources([[0.0, 0.0]], [[30.0, 0.0]], tolerance=250.0).efficiency(0.01)
        0.7
        """
        alpha = check_positive("alpha", alpha, allow_zero=True)
        if not self.n_matched:
            return self.jaccard
        return float(1.0 - np.hypot(1.0 - self.jaccard, alpha * self.rmse))

    def _share(self, total: float) -> float:
        if total == 0:
            return 1.0 if self.n_found == self.n_true else 0.0
        return self.n_matched / total


def match_sources(found_xy: ArrayLike, true_xy: ArrayLike, tolerance: float) -> SourceMatch:
    """Match found and true sources one to one within a tolerance.

    As many pairs as possible, and among such matchings one of least total distance. Only pairs within the
    tolerance are ever formed (k-d tree), and every connected group is solved by itself, so that 10^4 sources
    on either side take well under a second.

    Parameters
    ----------
    found_xy, true_xy : array of shape (m, 2), (n, 2)
        Positions; empty lists are allowed.
    tolerance : float
        Largest distance of a pair.

    Returns
    -------
    SourceMatch
        Pairs, distances and the scores that follow from them.

    Examples
    --------
    >>> match = match_sources([[0.0, 0.0], [1.0, 0.0]], [[1.1, 0.0], [2.0, 0.0]], tolerance=1.5)
    >>> match.pairs.tolist()
    [[0, 0], [1, 1]]
    """
    found, true = check_points("found_xy", found_xy), check_points("true_xy", true_xy)
    tolerance = check_positive("tolerance", tolerance)
    i, j, distance = near_pairs(found, true, tolerance)
    chosen = assign(i, j, distance, (found.shape[0], true.shape[0]), None)
    chosen = chosen[np.argsort(i[chosen], kind="stable")]
    pairs = np.column_stack([i[chosen], j[chosen]])
    return SourceMatch(pairs, distance[chosen], found.shape[0], true.shape[0], tolerance)


def nearest_distance(xy: ArrayLike) -> FloatArray:
    """Distance of each source to its nearest neighbour.

    Parameters
    ----------
    xy : array of shape (n, 2)
        Positions.

    Returns
    -------
    ndarray of shape (n,)
        Infinity for a source without any neighbour.

    Examples
    --------
    >>> nearest_distance([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]).tolist()
    [5.0, 1.0, 1.0]
    """
    points = check_points("xy", xy)
    if points.shape[0] < 2:
        return np.full(points.shape[0], np.inf)
    distance, _ = cKDTree(points).query(points, k=2)
    return np.asarray(distance, dtype=np.float64)[:, 1]


@dataclass(frozen=True, eq=False, repr=False)
class CompletenessPurity(Brief):
    """Completeness and purity in bins of flux, separation or whatever was given.

    Attributes
    ----------
    edges : ndarray of shape (b + 1,)
        Edges of the bins; the last bin includes its upper edge.
    completeness, purity : ndarray of shape (b,)
        Share of the true sources of the bin that were found, and of the found ones that are true; NaN in bins
        without any.
    n_true, n_found : ndarray of shape (b,)
        Number of sources in each bin.
    n_true_matched, n_found_matched : ndarray of shape (b,)
        How many of them are in a pair.
    """

    edges: FloatArray
    completeness: FloatArray
    purity: FloatArray
    n_true: IntArray
    n_found: IntArray
    n_true_matched: IntArray
    n_found_matched: IntArray


def completeness_purity(
    match: SourceMatch, true_values: ArrayLike, found_values: ArrayLike, edges: ArrayLike
) -> CompletenessPurity:
    """Completeness and purity against a property of the sources.

    Parameters
    ----------
    match : SourceMatch
        From `match_sources`.
    true_values, found_values : array of shape (n_true,), (n_found,)
        The property on either side: fluxes, or separations from `nearest_distance`.
    edges : array of shape (b + 1,)
        Increasing edges of the bins; infinity is allowed at the ends. Sources outside are not counted.

    Returns
    -------
    CompletenessPurity
        The two curves and the counts behind them.

    Examples
    --------
    >>> match = match_sources([[0.0, 0.0], [9.0, 9.0]], [[0.1, 0.0], [5.0, 5.0]], tolerance=1.0)
    >>> curves = completeness_purity(match, [10.0, 1.0], [9.0, 2.0], [0.0, 5.0, 20.0])
    >>> curves.completeness.tolist(), curves.purity.tolist()
    ([0.0, 1.0], [0.0, 1.0])
    """
    bins = np.asarray(edges, dtype=np.float64)
    if bins.ndim != 1 or bins.size < 2 or not np.all(np.diff(bins) > 0):
        raise ValueError("edges must be at least two increasing numbers")

    def count(name: str, values: ArrayLike, size: int, matched: IntArray) -> tuple[IntArray, IntArray]:
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (size,):
            raise ValueError(f"{name} must have shape ({size},), one per source; got {array.shape}")
        where = np.searchsorted(bins, array, side="right") - 1
        where[array == bins[-1]] = bins.size - 2
        where[np.isnan(array)] = -1
        paired = np.zeros(size, dtype=np.bool_)
        paired[matched] = True
        inside = (where >= 0) & (where < bins.size - 1)
        return (
            np.bincount(where[inside], minlength=bins.size - 1),
            np.bincount(where[inside & paired], minlength=bins.size - 1),
        )

    n_true, true_matched = count("true_values", true_values, match.n_true, match.pairs[:, 1])
    n_found, found_matched = count("found_values", found_values, match.n_found, match.pairs[:, 0])

    def share(part: IntArray, whole: IntArray) -> FloatArray:
        return np.asarray(np.divide(part, whole, out=np.full(whole.shape, np.nan), where=whole > 0))

    return CompletenessPurity(
        bins,
        share(true_matched, n_true),
        share(found_matched, n_found),
        n_true,
        n_found,
        true_matched,
        found_matched,
    )
