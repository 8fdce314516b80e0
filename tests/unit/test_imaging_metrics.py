"""Metrics against closed forms, brute force and their edge cases."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from fastsbl.imaging import (
    completeness_purity,
    group_iou,
    iou,
    match_sources,
    matched_iou,
    nearest_distance,
    psnr,
)

EMPTY = np.empty((0, 2))


@pytest.fixture
def rng():
    return np.random.default_rng(31)


def _points(low=0, high=7):
    return st.integers(low, high).flatmap(
        lambda n: arrays(np.float64, (n, 2), elements=st.floats(0, 12, allow_subnormal=False))
    )


def test_iou_of_equal_boxes():
    assert iou((0, 0), (0, 0)) == 1.0
    assert iou((0, 0), (1, 0), 3) == pytest.approx(6 / 12)
    assert iou((0, 0), (1, 1), (4, 2)) == pytest.approx(3 * 1 / (16 - 3))
    assert iou((0, 0), (3, 0), 3) == 0.0
    assert isinstance(iou((0, 0), (1, 0)), float)
    table = iou(np.zeros((4, 1, 2)), np.ones((1, 5, 2)), 3)
    assert table.shape == (4, 5)
    with pytest.raises(ValueError, match="box must be a side or a pair"):
        iou((0, 0), (1, 1), 0)
    with pytest.raises(ValueError, match="xy2 must have x and y along its last axis"):
        iou((0, 0), (1, 1, 1))


def _group_twin(found, true, box):
    table = iou(found[:, None], true[None], box)
    return table.max(axis=1).mean() if len(found) > len(true) else table.max(axis=0).mean()


@settings(deadline=None, max_examples=100)
@given(found=_points(1), true=_points(1), box=st.floats(0.5, 6))
def test_group_and_matched_iou_against_dense_tables(found, true, box):
    group, matched = group_iou(found, true, box), matched_iou(found, true, box)
    assert group == pytest.approx(_group_twin(found, true, box), abs=1e-12)
    table = iou(found[:, None], true[None], box)
    rows, columns = linear_sum_assignment(-table)
    assert matched == pytest.approx(table[rows, columns].sum() / max(len(found), len(true)), abs=1e-12)
    assert matched <= group + 1e-12


def test_iou_edge_cases():
    one = [[3.0, 3.0]]
    for score in (group_iou, matched_iou):
        assert score(EMPTY, EMPTY) == 1.0
        assert score([], []) == 1.0
        assert score(one, EMPTY) == 0.0
        assert score(EMPTY, one) == 0.0
        assert score(one, one) == 1.0
        with pytest.raises(ValueError, match="found_xy must be an array of shape"):
            score([1.0, 2.0], one)
        with pytest.raises(ValueError, match="true_xy must hold finite coordinates"):
            score(one, [[np.nan, 0.0]])
    truth = [[5.0, 5.0], [15.0, 5.0], [5.0, 15.0]]
    assert group_iou([[5.0, 5.0]] * 4, truth) == 1.0
    assert matched_iou([[5.0, 5.0]] * 4, truth) == 0.25


def _best_matching(found, true, tolerance):
    """Brute force: most pairs first, least distance second."""
    distance = np.linalg.norm(found[:, None] - true[None], axis=2)
    m, n = distance.shape
    best = (0, 0.0)
    for size in range(min(m, n), 0, -1):
        totals = [
            sum(distance[i, j] for i, j in zip(rows, columns, strict=True))
            for rows in itertools.combinations(range(m), size)
            for columns in itertools.permutations(range(n), size)
            if all(distance[i, j] <= tolerance for i, j in zip(rows, columns, strict=True))
        ]
        if totals:
            return size, min(totals)
    return best


@settings(deadline=None, max_examples=60)
@given(found=_points(0, 4), true=_points(0, 5), tolerance=st.floats(0.5, 8))
def test_matching_is_largest_then_shortest(found, true, tolerance):
    match = match_sources(found, true, tolerance)
    size, total = _best_matching(found, true, tolerance)
    assert match.n_matched == size
    assert match.distances.sum() == pytest.approx(total, abs=1e-9)
    assert np.all(match.distances <= tolerance)
    assert len(set(match.pairs[:, 0])) == len(set(match.pairs[:, 1])) == size
    for (i, j), distance in zip(match.pairs, match.distances, strict=True):
        assert np.linalg.norm(found[i] - true[j]) == pytest.approx(distance)


def test_sparse_and_dense_assignment_agree(rng, monkeypatch):
    true = rng.uniform(0, 15, (120, 2))
    found = np.vstack([true[:90] + rng.normal(0, 0.5, (90, 2)), rng.uniform(0, 15, (20, 2))])
    dense, dense_iou = match_sources(found, true, 2.0), matched_iou(found, true)
    monkeypatch.setattr("fastsbl.imaging._assignment._DENSE_LIMIT", 0)
    thin, thin_iou = match_sources(found, true, 2.0), matched_iou(found, true)
    assert dense.n_matched == thin.n_matched
    assert dense.distances.sum() == pytest.approx(thin.distances.sum(), rel=1e-12)
    assert dense_iou == pytest.approx(thin_iou, rel=1e-12)
    np.testing.assert_array_equal(dense.pairs, thin.pairs)


def test_scores_of_a_matching():
    match = match_sources([[0, 0], [10, 0], [50, 50]], [[0, 3], [10, 4], [80, 80], [90, 90]], 5)
    assert match.pairs.tolist() == [[0, 0], [1, 1]]
    assert (match.precision, match.recall) == (2 / 3, 0.5)
    assert match.f1 == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert match.jaccard == pytest.approx(2 / 5)
    assert match.rmse == pytest.approx(np.sqrt(12.5))
    assert match.efficiency(0.01) == pytest.approx(1 - np.sqrt(0.6**2 + (0.01 * np.sqrt(12.5)) ** 2))
    assert match_sources([[1, 1]], [[1, 1]], 1).efficiency(1.0) == 1.0


def test_matching_edge_cases():
    one = [[3.0, 3.0]]
    both = match_sources(EMPTY, EMPTY, 1.0)
    assert both.precision == both.recall == both.f1 == both.jaccard == both.efficiency(1.0) == 1.0
    assert np.isnan(both.rmse)
    for found, true in ((one, EMPTY), (EMPTY, one), (one, [[9.0, 9.0]])):
        match = match_sources(found, true, 1.0)
        assert match.precision == match.recall == match.f1 == match.jaccard == match.efficiency(1.0) == 0.0
        assert match.pairs.shape == (0, 2)
    assert match_sources(one * 3, one, 1.0).precision == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="tolerance must be a finite number above 0; got 0"):
        match_sources(one, one, 0)
    with pytest.raises(ValueError, match="alpha must be"):
        match_sources(one, one, 1).efficiency(-1)


@pytest.mark.parametrize("tolerance", [1.0, 4.0])
def test_ten_thousand_sources_are_matched_quickly(tolerance, rng):
    true = rng.uniform(0, 200, (10_000, 2))
    found = true[rng.permutation(10_000)] + rng.normal(0, 0.3, (10_000, 2))
    start = time.perf_counter()
    match = match_sources(found, true, tolerance)
    assert time.perf_counter() - start < 20
    assert match.n_matched > 9_950
    assert matched_iou(found, true) <= group_iou(found, true) + 1e-12


def test_psnr():
    clean = np.array([[0.0, 2.0], [1.0, 0.0]])
    assert psnr(clean, clean) == np.inf
    assert psnr(clean, np.zeros((2, 2))) == pytest.approx(20 * np.log10(2) - 10 * np.log10(5 / 4))
    assert psnr(7 * clean, 7 * clean + 0.7) == pytest.approx(psnr(clean, clean + 0.1))
    assert psnr(clean, clean + 5) != psnr(clean + 5, clean)
    with pytest.raises(ValueError, match="must have one shape"):
        psnr(clean, clean[:1])
    with pytest.raises(ValueError, match="original must have a maximum above 0"):
        psnr(-clean, clean)
    with pytest.raises(ValueError, match="reconstructed must be finite"):
        psnr(clean, clean * np.nan)


def test_completeness_and_purity_in_bins():
    true = np.array([[0, 0], [10, 0], [20, 0], [30, 0]], dtype=float)
    found = np.array([[0, 0.1], [20, 0.1], [50, 0]], dtype=float)
    match = match_sources(found, true, 1.0)
    curves = completeness_purity(match, [1.0, 2.0, 15.0, 20.0], [1.5, 14.0, 12.0], [0, 5, 10, 20])
    np.testing.assert_array_equal(curves.completeness, [0.5, np.nan, 0.5])
    np.testing.assert_array_equal(curves.purity, [1.0, np.nan, 0.5])
    assert curves.n_true.tolist() == [2, 0, 2]
    assert curves.n_true_matched.tolist() == [1, 0, 1]
    separation = completeness_purity(match, nearest_distance(true), nearest_distance(found), [0, 15, np.inf])
    assert separation.n_true.tolist() == [4, 0]
    assert separation.n_found.tolist() == [0, 3]
    left_out = completeness_purity(match, [np.nan, 2.0, 15.0, 99.0], [1.5, 14.0, -12.0], [0, 5, 10, 20])
    assert left_out.n_true.sum() == 2
    assert left_out.n_found.sum() == 2
    with pytest.raises(ValueError, match=r"true_values must have shape \(4,\)"):
        completeness_purity(match, [1.0], [1.5, 14.0, 12.0], [0, 5])
    with pytest.raises(ValueError, match="edges must be at least two increasing numbers"):
        completeness_purity(match, [1.0] * 4, [1.5, 14.0, 12.0], [0, 0])


def test_nearest_distance():
    assert nearest_distance(EMPTY).shape == (0,)
    assert nearest_distance([[1.0, 1.0]]).tolist() == [np.inf]
    assert nearest_distance([[0.0, 0.0], [0.0, 0.0]]).tolist() == [0.0, 0.0]
