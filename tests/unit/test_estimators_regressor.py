"""SBLRegressor: posterior with intercept, frequency weights, equivariance, storage, several targets, bad input."""

import copy
import logging
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from fastsbl import SBLRegressor, fit_sbl
from fastsbl._base.warnings import ConvergenceWarning as LowerConvergenceWarning
from fastsbl.dictionary import as_dictionary
from fastsbl.estimators._centering import CenteredDictionary, column_moments
from fastsbl.sbl import sbl_lambda_max


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 90)) + 3.0 * rng.standard_normal(90)
    coef = np.zeros(90)
    coef[[3, 20, 50]] = [2.0, -1.0, 1.5]
    return X, -4.0 + X @ coef + 0.3 * rng.standard_normal(60)


def dense_gaussian(X, y, gamma, lam, X_new, weights=None, wide=1e9):
    """Mean and variance of new observations, the intercept a coefficient with a very wide prior."""
    rows = np.column_stack([np.ones(len(X)), X])
    new = np.column_stack([np.ones(len(X_new)), X_new])
    weights = np.ones(len(X)) if weights is None else weights
    precision = rows.T @ (weights[:, None] * rows) / lam + np.diag(1.0 / np.concatenate([[wide], gamma]))
    covariance = np.linalg.inv(precision)
    mean = covariance @ rows.T @ (weights * y) / lam
    return mean, new @ mean, lam + np.einsum("ij,jk,ik->i", new, covariance, new)


@pytest.mark.parametrize("weighted", [False, True])
def test_predictive_distribution_is_the_dense_gaussian(data, rng, weighted):
    X, y = data
    weights = rng.uniform(0.2, 3.0, 60) if weighted else None
    model = SBLRegressor(noise_variance=0.1).fit(X, y, weights)
    X_new = rng.standard_normal((20, 90)) + 5.0
    mean, std = model.predict(X_new, return_std=True)
    used = model.support_
    coef, expected, variance = dense_gaussian(
        X[:, used], y, model.gamma_[used], model.noise_variance_, X_new[:, used], weights
    )
    assert {3, 20, 50} <= set(used.tolist())
    np.testing.assert_allclose(model.coef_[used], coef[1:], rtol=1e-4)
    np.testing.assert_allclose(model.intercept_, coef[0], rtol=1e-4)
    np.testing.assert_allclose(mean, expected, rtol=1e-4)
    np.testing.assert_allclose(std**2, variance, rtol=1e-5)


def test_score_is_the_log_density_of_the_centred_target(data):
    X, y = data
    model = SBLRegressor(noise_variance=0.1).fit(X, y)
    contrasts = np.linalg.svd(np.ones((1, 60)))[2][1:]  # N - 1 orthonormal directions without the constant
    rows, target = contrasts @ X[:, model.support_], contrasts @ y
    cov = 0.1 * np.eye(59) + (rows * model.gamma_[model.support_]) @ rows.T
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * cov)[1] + target @ np.linalg.solve(cov, target))
    assert model.score_ == pytest.approx(expected, rel=1e-9)


def test_without_intercept_it_is_fit_sbl(data):
    X, y = data
    model = SBLRegressor(noise_variance=0.5, fit_intercept=False).fit(X, y)
    result = fit_sbl(X, y, 0.5)
    np.testing.assert_allclose(model.coef_, result.coef, rtol=1e-10)
    assert model.intercept_ == 0.0
    assert model.loss_ == pytest.approx(result.loss)
    assert model.n_iter_ == len(model.history_) == result.n_iter


@pytest.mark.parametrize("noise_variance", ["learn", 0.1])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_integer_weights_are_repeated_rows(data, rng, noise_variance, fit_intercept, container):
    X, y = data
    weights = rng.integers(0, 4, 60)
    rows = np.repeat(np.arange(60), weights)
    options = {"noise_variance": noise_variance, "fit_intercept": fit_intercept}
    weighted = SBLRegressor(**options).fit(container(X), y, weights)
    repeated = SBLRegressor(**options).fit(container(X[rows]), y[rows])
    assert (weights == 0).any()
    np.testing.assert_array_equal(weighted.support_, repeated.support_)
    for name in ("coef_", "gamma_", "intercept_", "noise_variance_", "score_", "loss_", "sigma_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-7, err_msg=name)
    np.testing.assert_allclose(
        weighted.predict(container(X), return_std=True)[1],
        repeated.predict(container(X), return_std=True)[1],
        rtol=1e-7,
    )


@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_scaling_y(data, factor):
    X, y = data
    model, scaled = SBLRegressor().fit(X, y), SBLRegressor().fit(X, factor * y)
    np.testing.assert_array_equal(model.support_, scaled.support_)
    np.testing.assert_allclose(scaled.coef_, factor * model.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.noise_variance_, factor**2 * model.noise_variance_, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise_ratio", [None, 0.01])
def test_scaling_columns(data, factor, dtype, noise_ratio):
    X, y = data
    scales = np.ones(90)
    scales[[3, 4, 60]] = factor
    plain = SBLRegressor(noise_ratio=noise_ratio).fit(X.astype(dtype), y)
    scaled = SBLRegressor(noise_ratio=noise_ratio).fit((X * scales).astype(dtype), y)
    tol = 1e-6 if dtype == np.float64 else 1e-3
    np.testing.assert_array_equal(plain.support_, scaled.support_)
    np.testing.assert_allclose(scaled.coef_ * scales, plain.coef_, rtol=tol, atol=tol * 1e-3)


def test_noise_ratio_is_relative_to_the_largest_useful_variance(data):
    X, y = data
    centred = X - X.mean(axis=0), y - y.mean()
    model = SBLRegressor(noise_ratio=0.02).fit(X, y)
    assert model.noise_variance_ == pytest.approx(0.02 * sbl_lambda_max(*centred))
    assert SBLRegressor(noise_ratio=1.001).fit(X, y).support_.size == 0
    assert SBLRegressor(noise_ratio=0.98).fit(X, y).support_.size > 0


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_is_dense(rng, container, weighted):
    X = rng.standard_normal((70, 40)) * (rng.random((70, 40)) < 0.3)
    X[:, 5] = 0.0
    y = X[:, 2] - 2 * X[:, 7] + 0.1 * rng.standard_normal(70) + 9
    weights = rng.uniform(0, 2, 70) if weighted else None
    dense, other = SBLRegressor().fit(X, y, weights), SBLRegressor().fit(container(X), y, weights)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-8)
    for a, b in zip(other.predict(container(X), return_std=True), dense.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_centred_dictionary_answers_as_the_centred_matrix(rng):
    X = rng.standard_normal((30, 12)) * (rng.random((30, 12)) < 0.4)
    X[:, 4] = 2.5
    weights = rng.uniform(0, 2, 30)
    roots = np.sqrt(weights)
    for matrix in (X, np.asfortranarray(X), sparse.csc_array(X)):
        means, norms = column_moments(matrix, weights, centre=True)
        phi = CenteredDictionary(as_dictionary(matrix), means, roots, norms)
        full = roots[:, None] * (X - np.average(X, axis=0, weights=weights))
        full[:, 4] = 0.0
        R = rng.standard_normal((30, 2))
        np.testing.assert_allclose(phi.columns(np.arange(12)), full, atol=1e-14)
        np.testing.assert_allclose(phi.correlate(R), full.T @ R, atol=1e-13)
        np.testing.assert_allclose(phi.correlate(R[:, 0], np.array([3, 4])), full[:, [3, 4]].T @ R[:, 0], atol=1e-13)
        np.testing.assert_allclose(phi.column_norms(), np.linalg.norm(full, axis=0), atol=1e-14)
        assert phi.column_norms()[4] == 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_large_offsets(rng, dtype, order):
    """A column whose mean is a million times its spread."""
    X = rng.integers(-50, 50, (80, 30)) / 16.0
    y = 2 * X[:, 3] - X[:, 8] + 0.1 * rng.standard_normal(80)
    offset = 3e5 if dtype == np.float32 else 3e9
    shifted = np.array(X + offset, dtype=dtype, order=order)
    assert np.array_equal(shifted.astype(np.float64) - offset, X), "the data themselves must survive the shift"
    model = SBLRegressor().fit(shifted, y)
    np.testing.assert_array_equal(model.support_, [3, 8])
    np.testing.assert_allclose(model.coef_, SBLRegressor().fit(X, y).coef_, rtol=1e-3, atol=1e-12)


def test_dense_float32_is_not_copied(rng):
    import tracemalloc

    X = rng.standard_normal((50, 40_000), dtype=np.float32)
    y = X[:, 7].astype(float) + 0.1 * rng.standard_normal(50) + 3
    SBLRegressor().fit(X[:, :50], y)
    tracemalloc.start()
    model = SBLRegressor().fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 7 in model.support_
    vectors = 40 * 8 * X.shape[1]  # bounds and products, some tens of vectors of n numbers
    assert peak < vectors + 0.5 * X.nbytes


def test_constant_target(data):
    X, _ = data
    for value in (0.0, 0.1, -1e8):
        model = SBLRegressor().fit(X, np.full(60, value))
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_array_equal(model.coef_, 0.0)
        np.testing.assert_allclose(mean, value, rtol=1e-14)
        assert 0 < model.noise_variance_ <= max((1e-14 * value) ** 2, 1e-300)
        assert np.isfinite(std).all()
        assert np.isfinite(model.score_)


def test_columns_that_say_nothing(rng):
    y = rng.standard_normal(40)
    model = SBLRegressor().fit(np.full((40, 3), 0.1), y)
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert model.noise_variance_ == pytest.approx(y.var(ddof=1))
    mean, std = model.predict(np.ones((1, 3)), return_std=True)
    assert mean[0] == pytest.approx(y.mean())
    assert std[0] ** 2 == pytest.approx(y.var(ddof=1) * (1 + 1 / 40))


@pytest.fixture
def targets(data, rng):
    X, _ = data
    coef = np.zeros((90, 3))
    coef[[3, 20, 50]] = rng.choice([-1, 1], (3, 3)) * rng.uniform(1, 2, (3, 3))
    return X, X @ coef + np.array([1.0, -5.0, 9.0]) + 0.2 * rng.standard_normal((60, 3))


def test_shared_targets(targets):
    X, Y = targets
    model = SBLRegressor(multi_output="shared").fit(X, Y)
    np.testing.assert_array_equal(model.support_, [3, 20, 50])
    assert model.coef_.shape == (3, 90)
    assert model.gamma_.shape == (90,)
    assert model.sigma_.shape == (3, 3)
    assert np.ndim(model.noise_variance_) == 0
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 3)
    assert model.score(X, Y) > 0.98
    assert model.noise_variance_ == pytest.approx(0.04, rel=0.4)


def test_separate_targets_are_separate_fits(targets):
    X, Y = targets
    Y = Y * [1.0, 10.0, 0.1]
    model = SBLRegressor(multi_output="separate").fit(X, Y)
    mean, std = model.predict(X, return_std=True)
    for k in range(3):
        alone = SBLRegressor().fit(X, Y[:, k])
        np.testing.assert_allclose(model.coef_[k], alone.coef_, rtol=1e-8)
        np.testing.assert_allclose(model.intercept_[k], alone.intercept_, rtol=1e-8)
        np.testing.assert_array_equal(model.support_[k], alone.support_)
        np.testing.assert_allclose(mean[:, k], alone.predict(X), rtol=1e-8)
        np.testing.assert_allclose(std[:, k], alone.predict(X, return_std=True)[1], rtol=1e-8)
        assert model.noise_variance_[k] == pytest.approx(alone.noise_variance_)


@pytest.mark.parametrize("multi_output", ["shared", "separate"])
def test_one_target_as_a_column(data, multi_output):
    X, y = data
    model = SBLRegressor(multi_output=multi_output).fit(X, y[:, None])
    flat = SBLRegressor().fit(X, y)
    assert model.coef_.shape == (1, 90)
    np.testing.assert_allclose(model.coef_[0], flat.coef_)
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 1)
    np.testing.assert_allclose(mean[:, 0], flat.predict(X))


def test_positive(data):
    X, y = data
    model = SBLRegressor(positive=True, noise_variance=0.1).fit(X, y)
    assert (model.coef_ >= 0).all()
    assert model.coef_[3] > 1
    assert SBLRegressor(noise_variance=0.1).fit(X, y).coef_[20] < 0


def test_intervals_cover_what_they_say():
    """Over 30 problems, 90% intervals hold between 85 and 95% of new observations."""
    rng = np.random.default_rng(5)
    inside = total = 0
    for _ in range(30):
        X = rng.standard_normal((280, 40)) + rng.uniform(-3, 3, 40)
        coef = np.zeros(40)
        coef[rng.choice(40, 4, replace=False)] = rng.uniform(0.5, 2, 4)
        y = 3 + X @ coef + 0.5 * rng.standard_normal(280)
        model = SBLRegressor().fit(X[:80], y[:80])
        mean, std = model.predict(X[80:], return_std=True)
        inside += np.count_nonzero(np.abs(y[80:] - mean) <= 1.6449 * std)
        total += 200
    assert 0.85 <= inside / total <= 0.95


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"noise_variance": "guess"}, ValueError, "noise_variance must be 'learn' or a number above 0, got 'guess'"),
        ({"noise_variance": 0.0}, ValueError, "noise_variance must be a finite number above 0, got 0.0"),
        ({"noise_variance": None}, TypeError, "noise_variance must be a number above 0, got NoneType"),
        ({"noise_ratio": -1}, ValueError, "noise_ratio must be a finite number above 0, got -1"),
        ({"noise_ratio": 0.1, "noise_variance": 1.0}, ValueError, "cannot both be numbers"),
        ({"average": 1}, TypeError, "average must be True or False, got int"),
        ({"fit_intercept": "yes"}, TypeError, "fit_intercept must be True or False, got str"),
        ({"multi_output": "joint"}, ValueError, "multi_output must be one of 'shared', 'separate'; got 'joint'"),
        ({"max_iter": 0}, ValueError, "max_iter must be a whole number of at least 1, got 0"),
        ({"tol": 0}, ValueError, "tol must be a finite number above 0"),
        ({"screening": "magic"}, ValueError, "magic"),
    ],
)
def test_bad_parameters(data, options, error, message):
    with pytest.raises(error, match=message):
        SBLRegressor(**options).fit(*data)


def test_weights_that_leave_nothing_to_learn_from(data):
    X, y = data
    with pytest.raises(ValueError, match="sample_weight must sum to more than 1"):
        SBLRegressor().fit(X, y, np.full(60, 0.01))


def test_convergence_warning_is_scikit_learns(data):
    X, y = data
    with pytest.warns(LowerConvergenceWarning), pytest.warns(ConvergenceWarning, match="SBLRegressor did not converge"):
        SBLRegressor(noise_variance=0.05, max_iter=2).fit(X, y)


def test_verbose_logs_without_a_bar(data, monkeypatch, caplog, capsys):
    for name in ("rich.console", "tqdm"):
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.INFO, logger="fastsbl"):
        SBLRegressor(verbose=1).fit(*data)
    assert "SBLRegressor: loss" in caplog.text
    out, err = capsys.readouterr()
    assert out == err == ""


@pytest.mark.parametrize("library", ["rich", "tqdm"])
def test_verbose_bar_goes_to_the_error_stream(data, monkeypatch, capsys, library):
    pytest.importorskip(library)
    if library == "tqdm":
        monkeypatch.setitem(sys.modules, "rich.console", None)
    SBLRegressor(verbose=1).fit(*data)
    out, err = capsys.readouterr()
    assert out == ""
    assert "SBLRegressor" in err


def test_what_is_not_known_about_the_support_counts(data, rng):
    """Learned noise: the variance is that of the draws about the coefficients; `average` uses their mean."""
    X, y = data
    X_new = rng.standard_normal((20, 90)) + X.mean(axis=0)
    sparse_one, averaged = SBLRegressor().fit(X, y), SBLRegressor(average=True).fit(X, y)
    result = fit_sbl(X - X.mean(axis=0), y - y.mean(), n_effective=59.0)
    average = result.average()
    np.testing.assert_array_equal(sparse_one.support_, averaged.support_)
    np.testing.assert_allclose(sparse_one.coef_, result.coef, atol=1e-6)
    np.testing.assert_allclose(averaged.coef_, average.coef, atol=1e-6)
    np.testing.assert_allclose(averaged.inclusion_probability_[average.index], average.probability, atol=1e-6)
    assert averaged.inclusion_probability_[[3, 20, 50]].min() > 0.99
    answers = (X_new - X.mean(axis=0))[:, average.index] @ average.draws.T
    for model in (sparse_one, averaged):
        mean, std = model.predict(X_new, return_std=True)
        expected = average.lam * (1 + 1 / 60) + ((answers - (mean - y.mean())[:, None]) ** 2).mean(axis=1)
        np.testing.assert_allclose(std**2, expected, rtol=1e-5)
    assert not hasattr(sparse_one.set_params(noise_variance=0.1).fit(X, y), "inclusion_probability_")


@pytest.mark.parametrize("multi_output", ["shared", "separate"])
def test_average_of_several_targets(data, multi_output):
    X, y = data
    Y = np.column_stack([y, -2 * y + 0.1 * X[:, 0]])
    model = SBLRegressor(average=True, multi_output=multi_output).fit(X, Y)
    assert model.coef_.shape == (2, 90)
    assert model.inclusion_probability_.shape == ((90,) if multi_output == "shared" else (2, 90))
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert (std[:, 0] != std[:, 1]).any()
    assert np.mean(np.abs(Y - mean) < 3 * std) > 0.97


def test_bumps_that_explain_a_surface_only_together():
    """The score of a few wide bumps is a valley that the path has to leave: what they leave is a third of the power."""
    rng = np.random.default_rng([1, 7])
    X, y = make_friedman1(1000, noise=1.0, random_state=int(rng.integers(2**31)))
    order = rng.permutation(1000)
    train, test = order[:300], order[300:]

    def bumps(rows):
        return np.exp(-((X[rows][:, None, :] - X[train][None, :, :]) ** 2).sum(axis=2) / 2.0)

    scaler = StandardScaler().fit(bumps(train))
    model = SBLRegressor().fit(scaler.transform(bumps(train)), y[train])
    assert model.support_.size > 20
    assert model.score(scaler.transform(bumps(test)), y[test]) > 0.84


def test_norms_of_centred_data_survive_a_copy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) * [1.0, 5.0, 0.1, 2.0]
    means, norms = column_moments(X, None, centre=True)
    phi = CenteredDictionary(as_dictionary(X), means, None, norms)
    np.testing.assert_allclose(phi.column_norms() ** 2, ((X - X.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(copy.deepcopy(phi).column_norms(), phi.column_norms())


def test_inclusion_is_told_for_constant_targets_too():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    Y = np.column_stack([X[:, 0] + 0.1 * rng.standard_normal(30), np.ones(30)])
    model = SBLRegressor(multi_output="separate").fit(X, Y)
    assert model.inclusion_probability_.shape == (2, 4)
    assert not model.inclusion_probability_[1].any()
