"""Averages over supports, against sums over all of them and against what they promise."""

import numpy as np
import pytest
from scipy.special import betaln, logsumexp
from scipy.stats import norm

from fastsbl.datasets import make_sparse_regression
from fastsbl.sbl import _draw_kernels, fit_sbl


def small_problem(n_targets=1):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((20, 5))
    X[:, 1] += 0.8 * X[:, 0]
    X /= np.linalg.norm(X, axis=0)
    coef = np.array([3.0, 0.0, 2.0, 0.0, 0.0])
    return X, (X @ coef)[:, None] + rng.standard_normal((20, n_targets))


def exact(X, Y, expected, n_features, learn):
    """Probabilities, means and second moments by summing over supports and a grid of powers and noise variances."""
    n_samples, c = X.shape
    n_targets = Y.shape[1]
    powers = np.exp(np.linspace(-3, 9, 40))
    noises = np.exp(np.linspace(-1.6, 1.8, 24)) if learn else np.ones(1)
    logs, sizes, means, seconds = [], [], [], []
    for code in range(2**c):
        used = np.array([code >> j & 1 for j in range(c)], dtype=bool)
        size, A = used.sum(), X[:, used]
        prior = betaln(1 + size, 1 + n_features - size)
        for power in powers:
            slab = -2 * np.log(power) + np.log(expected) - expected / power + np.log(power)  # on a logarithmic grid
            for lam in noises:
                S = lam * np.eye(n_samples) + power * A @ A.T
                log = prior + slab - 0.5 * n_targets * np.linalg.slogdet(S)[1]
                log -= 0.5 * np.sum(Y * np.linalg.solve(S, Y))
                if learn:  # one sample beforehand, of variance 1
                    log += -1.5 * np.log(lam) - 0.5 / lam + np.log(lam)
                inner = np.linalg.inv(A.T @ A / lam + np.eye(size) / power)
                mean, second = np.zeros((c, n_targets)), np.zeros((c, c))
                mean[used] = inner @ A.T @ Y / lam
                second[np.ix_(used, used)] = inner
                logs.append(log)
                sizes.append(used)
                means.append(mean)
                seconds.append(second + np.outer(mean[:, 0], mean[:, 0]))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    return [np.tensordot(weights, np.array(values, dtype=float), 1) for values in (sizes, means, seconds)]


@pytest.mark.parametrize(("learn", "n_targets"), [(True, 1), (False, 1), (False, 3)])
def test_draws_have_the_moments_of_the_sum_over_all_supports(learn, n_targets):
    X, Y = small_problem(n_targets)
    expected, n_features = 8.0, 12.0
    probability, mean, second = exact(X, Y, expected, n_features, learn)
    draws, noises, shares = np.empty((40_000, 5, n_targets)), np.empty(40_000), np.zeros(5)
    _draw_kernels.draw_supports(
        X.T @ X, X.T @ Y, np.zeros((5, n_targets)), float(np.sum(Y**2)), 20.0, n_features, learn, expected, 5, False,
        np.random.default_rng(0), 100, draws, noises, shares,
    )  # fmt: skip
    np.testing.assert_allclose(shares, probability, atol=0.015)
    np.testing.assert_allclose((draws[:, :, 0] != 0).mean(axis=0), probability, atol=0.015)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(draws[:, :, 0].T @ draws[:, :, 0] / 40_000, second, atol=0.2)
    assert (noises == 1).all() != learn


def test_products_and_square_follow_the_coefficients():
    X, Y = small_problem(2)
    theta, products = np.zeros((5, 2)), X.T @ Y
    draws, noises, shares = np.empty((50, 5, 2)), np.empty(50), np.zeros(5)
    _draw_kernels.draw_supports(
        X.T @ X, products, theta, float(np.sum(Y**2)), 20.0, 5.0, True, 8.0, 5, False,
        np.random.default_rng(0), 0, draws, noises, shares,
    )  # fmt: skip
    np.testing.assert_array_equal(draws[-1], theta)
    np.testing.assert_allclose(products, X.T @ (Y - X @ theta), atol=1e-12)


@pytest.mark.parametrize("mean", [-6.0, -0.2, 3.0])
def test_positive_draws_are_normal_above_zero(mean):
    rng = np.random.default_rng(1)
    values = np.array([_draw_kernels._positive_normal(mean, 2.0, rng) for _ in range(20_000)])
    assert (values > 0).all()
    low = -mean / 2.0
    expected = mean + 2.0 * norm.pdf(low) / norm.sf(low)
    assert values.mean() == pytest.approx(expected, rel=0.03)


def test_no_more_features_than_asked_for():
    X, Y = small_problem()
    draws, noises, shares = np.empty((500, 5, 1)), np.empty(500), np.zeros(5)
    _draw_kernels.draw_supports(
        X.T @ X, X.T @ Y, np.zeros((5, 1)), float(np.sum(Y**2)), 20.0, 5.0, True, 8.0, 2, False,
        np.random.default_rng(0), 0, draws, noises, shares,
    )  # fmt: skip
    assert (draws != 0).sum(axis=1).max() == 2


def test_prediction_is_better_where_single_features_are_too_weak():
    """At 0 dB the mean over supports predicts better than the best support, most of the time and on average."""
    gains = []
    for seed in range(8):
        problem = make_sparse_regression(100, 300, n_nonzero=5, snr_db=0, rng=seed)
        result = fit_sbl(problem.dictionary, problem.y)
        risks = [
            np.sum((problem.dictionary @ (coef - problem.coef)) ** 2) / 100 + problem.noise_variance
            for coef in (result.coef, result.average().coef)
        ]
        gains.append(risks[1] / risks[0])
    assert np.mean(gains) < 0.99
    assert np.mean(np.array(gains) < 1) >= 0.6


def test_a_clear_support_stays_as_it_is():
    problem = make_sparse_regression(200, 500, n_nonzero=4, snr_db=25, rng=1)
    result = fit_sbl(problem.dictionary, problem.y)
    average = result.average()
    place = np.searchsorted(average.index, result.support)
    np.testing.assert_allclose(average.probability[place], 1.0)
    assert average.probability.sum() < result.support.size + 1
    np.testing.assert_allclose(average.coef[result.support], result.coef[result.support], rtol=0.02)
    mean, variance = average.predict(problem.dictionary[:20])
    expected, plain = result.posterior().predict(problem.dictionary[:20])
    np.testing.assert_allclose(mean, expected, atol=0.2 * np.sqrt(result.lam))
    np.testing.assert_allclose(variance, plain, rtol=0.1)
    away = average.draws - result.coef[average.index]
    np.testing.assert_allclose(average.spread_about(result.coef), away.T @ away / len(away))


def test_seeds_units_and_several_targets():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 90))
    coef = np.zeros((90, 2))
    coef[[3, 40]] = rng.uniform(1, 2, (2, 2))
    Y = X @ coef + rng.standard_normal((60, 2))
    result = fit_sbl(X, Y)
    one, same, other = result.average(n_draws=50), result.average(n_draws=50), result.average(n_draws=50, rng=1)
    assert one.draws.shape == (50, one.index.size, 2)
    np.testing.assert_array_equal(one.draws, same.draws)
    assert (one.draws != other.draws).any()
    assert one.coef.shape == (90, 2)
    assert one.spread_about(result.coef).shape == (2, one.index.size, one.index.size)
    mean, variance = one.predict(X[:7])
    assert mean.shape == variance.shape == (7, 2)
    scaled = fit_sbl(X, 1e6 * Y).average(n_draws=50)
    np.testing.assert_array_equal(scaled.index, one.index)
    np.testing.assert_allclose(scaled.coef, 1e6 * one.coef, rtol=1e-6, atol=1.0)


def test_coefficients_of_at_least_zero_and_known_noise():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 30))
    y = X[:, 2] + 0.5 * X[:, 9] + rng.standard_normal(50)
    average = fit_sbl(X, y, 1.0, positive=True).average(positive=True)
    assert (average.draws >= 0).all()
    assert average.lam == 1.0
    nothing = fit_sbl(X, y, 1e6).average()
    assert nothing.lam == 1e6
    empty = fit_sbl(np.zeros((5, 3)), np.arange(5.0), 1.0).average()
    assert empty.index.size == 0
    np.testing.assert_array_equal(empty.coef, np.zeros(3))


def test_wrong_input():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((20, 6)), rng.standard_normal(20)
    with pytest.raises(ValueError, match="average is for real data without groups, got complex numbers"):
        fit_sbl(X + 0j, y + 0j, 1.0).average()
    with pytest.raises(ValueError, match="average is for real data without groups, got groups"):
        fit_sbl(X, y, 1.0, groups=[0, 0, 1, 1, 2, 2]).average()
    with pytest.raises(ValueError, match="n_draws must be a whole number of at least 1, got 0"):
        fit_sbl(X, y, 1.0).average(n_draws=0)
    with pytest.raises(ValueError, match="X must have 6 columns, got 5"):
        fit_sbl(X, y, 1.0).average().predict(X[:, :5])


def test_copies_of_a_column_change_places():
    """Of two equal columns either may be in: one at a time alone would keep the first for ever."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    X[:, 1] = X[:, 0]
    y = 2.0 * X[:, 0] + 0.2 * rng.standard_normal(40)
    fit = fit_sbl(X, y, 0.04)
    probable = np.array([fit.average(n_draws=2000, rng=seed).probability[:2] for seed in range(3)])
    np.testing.assert_allclose(probable, 0.635, atol=0.15)  # over all 32 supports
    X[:, 1] += 0.05 * rng.standard_normal(40)
    average = fit_sbl(X, y, 0.04).average(n_draws=4000, rng=0)
    assert average.probability[0] > 0.97
