"""Learning the noise variance: dense truths, small effects, repeated rows, and where the path ends."""

import numpy as np
import pytest

from fastsbl.datasets import make_sparse_regression
from fastsbl.sbl import fit_sbl
from fastsbl.sbl.noise import refit


def unit_columns(rng, n_samples, n_features):
    X = rng.standard_normal((n_samples, n_features))
    return np.asfortranarray(X / np.linalg.norm(X, axis=0))


def test_a_dense_truth_is_found_when_there_is_little_noise():
    """20 features of 240 with 80 samples: supports of more than a third of the samples on the way."""
    recovered = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = unit_columns(rng, 80, 240)
        support = rng.choice(240, 20, replace=False)
        coef = np.zeros(240)
        coef[support] = rng.choice([-1, 1], 20) * rng.uniform(1, 2, 20)
        signal = X @ coef
        y = signal + 0.01 * signal.std() * rng.standard_normal(80)
        result = fit_sbl(X, y)
        recovered += np.linalg.norm(result.coef - coef) < 0.05 * np.linalg.norm(coef)
    assert recovered >= 2


@pytest.mark.parametrize(("k", "seed"), [(15, 16), (20, 12), (25, 11)])
def test_a_truth_of_which_half_is_found_early_is_found_whole(k, seed):
    """Coherent columns, 40 dB: the best early supports leave some of the power, and the next ones score worse."""
    rng = np.random.default_rng([2, k, seed])
    X = rng.standard_normal((100, 400))
    for j in range(1, 400):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    X = np.asfortranarray(X / np.linalg.norm(X, axis=0))
    coef = np.zeros(400)
    support = rng.choice(400, k, replace=False)
    coef[support] = rng.choice([-1.0, 1.0], k) * (1.0 + np.abs(rng.standard_normal(k)))
    signal = X @ coef
    noise = np.mean(signal**2) * 1e-4
    result = fit_sbl(X, signal + np.sqrt(noise) * rng.standard_normal(100))
    assert np.linalg.norm(result.coef - coef) < 0.05 * np.linalg.norm(coef)
    assert 0.3 * noise < result.lam < 2.0 * noise


def test_small_effects_stay_in_the_model():
    """Forty features that all count a little, in a tall table: as good as least squares, and calibrated."""
    rng = np.random.default_rng(4)
    lost, inside = [], []
    for _ in range(5):
        X = rng.standard_normal((700, 60))
        coef = np.concatenate([0.15 * rng.standard_normal(40), np.zeros(20)])
        y = X @ coef + rng.standard_normal(700)
        result = fit_sbl(X[:200], y[:200])
        mean, variance = result.posterior().predict(X[200:])
        plain = X[200:] @ np.linalg.lstsq(X[:200], y[:200])[0]
        error, other = np.mean((y[200:] - mean) ** 2), np.mean((y[200:] - plain) ** 2)
        lost.append(error / other)
        inside.append(np.mean(np.abs(y[200:] - mean) < 1.6449 * np.sqrt(variance)))
    assert np.mean(lost) < 1.0
    assert 0.85 < np.mean(inside) < 0.95


def test_a_square_table_of_noise_is_not_followed():
    rng = np.random.default_rng(6)
    variances = []
    for _ in range(4):
        X, y = rng.standard_normal((50, 50)), rng.standard_normal(50)
        result = fit_sbl(X, y)
        assert result.support.size <= 3
        variances.append(result.lam)
    assert 0.7 < np.median(variances) < 1.4


def test_repeated_rows_are_weights_and_no_support_interpolates_them():
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((40, 100)), rng.standard_normal(40)
    y += 2 * X[:, 3]
    once = fit_sbl(X, y)
    twice = fit_sbl(np.tile(X, (2, 1)), np.tile(y, 2))
    weighted = fit_sbl(np.sqrt(2.0) * X, np.sqrt(2.0) * y, n_effective=80)
    assert 3 in once.support
    assert 3 in twice.support
    assert twice.support.size <= 15, "0.75 of half of the 40 rows that differ"
    assert twice.lam > 0.01
    np.testing.assert_array_equal(twice.support, weighted.support)
    np.testing.assert_allclose(twice.lam, weighted.lam, rtol=1e-7)


def test_a_table_of_counts_may_have_few_different_rows():
    """Two of three yes-or-no columns matter to a yes-or-no target: 16 different rows at most, 2,000 in all."""
    rng = np.random.default_rng(9)
    X = (rng.random((2000, 3)) < 0.5).astype(float)
    y = (rng.random(2000) < 0.2 + 0.4 * X[:, 0] + 0.3 * X[:, 2]).astype(float)
    result = fit_sbl(X - X.mean(axis=0), y - y.mean())
    assert {0, 2} <= set(result.support.tolist())
    np.testing.assert_allclose(result.coef[[0, 2]], [0.4, 0.3], atol=0.06)


def test_the_path_ends_soon_on_a_tall_table():
    problem = make_sparse_regression(400, 40, n_nonzero=10, snr_db=10, rng=3)
    result = fit_sbl(problem.dictionary, problem.y)
    assert set(problem.support.tolist()) <= set(result.support.tolist())
    below = [c for c in result.noise_path if c.path_lam < c.lam]
    assert len(below) <= 2, "supports whose own noise is above the path have nothing more to say"


def test_refit_at_a_given_noise_variance_finds_the_widths_alone():
    rng = np.random.default_rng(8)
    rows, gamma = rng.standard_normal((4, 50)), np.ones(4)
    y = rows.T @ np.array([2.0, -1.0, 0.5, 0.0]) + 0.3 * rng.standard_normal(50)
    free = refit(rows, y, gamma, 50, tol=1e-10)
    fixed = refit(rows, y, gamma, 50, lam=free.lam, tol=1e-10)
    assert fixed.lam == free.lam
    np.testing.assert_allclose(fixed.gamma, free.gamma, rtol=1e-5)
    wide = refit(rows, y, gamma, 50, lam=4 * free.lam, tol=1e-10)
    assert wide.lam == 4 * free.lam
    assert wide.loss > free.loss
    index = free.kept
    variance = np.linalg.inv(rows[index] @ rows[index].T / free.lam)
    plain = variance @ rows[index] @ y / free.lam
    assert free.weakest == pytest.approx(np.min(plain**2 / np.diag(variance)), rel=0.1)
