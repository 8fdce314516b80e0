"""SBLRegressorCV: the path per fold, the choice, what is kept; and nothing that depends on units."""

import logging
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, RepeatedKFold

from fastsbl import SBLRegressor, SBLRegressorCV
from fastsbl.sbl import sbl_lambda_max, sbl_path

RATIOS = np.logspace(0, -4, 9)


@pytest.fixture
def data():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((60, 40)) + 2.0
    coef = np.zeros(40)
    coef[[3, 20, 35]] = [2.0, -1.0, 1.5]
    return X, -4.0 + X @ coef + 0.5 * rng.standard_normal(60)


def test_scores_are_those_of_a_followed_path(data):
    X, y = data
    model = SBLRegressorCV(RATIOS, cv=4).fit(X, y)
    for k, (train, test) in enumerate(KFold(4).split(X)):
        rows, target = X[train] - X[train].mean(axis=0), y[train] - y[train].mean()
        ratios = model.noise_variances_ / sbl_lambda_max(rows, target)
        path = sbl_path(rows, target, ratios, relative_to="sbl_lambda_max", follow=True, tol=1e-3)
        scores = model.cv_results_[f"split{k}_test_score"]
        for score, fit in zip(scores, path, strict=True):
            prediction = y[train].mean() + (X[test] - X[train].mean(axis=0)) @ fit.coef
            assert score == pytest.approx(-np.mean((y[test] - prediction) ** 2), rel=1e-7)
        for ratio in (1, 4, 7):
            alone = SBLRegressor(noise_variance=model.noise_variances_[ratio]).fit(X[train], y[train])
            assert scores[ratio] == pytest.approx(-np.mean((y[test] - alone.predict(X[test])) ** 2), rel=0.1)


def test_predictive_variances_are_calibrated_by_the_held_out_errors(data):
    X, y = data
    model = SBLRegressorCV(RATIOS, cv=4).fit(X, y)
    misfits = []
    for train, test in KFold(4).split(X):
        alone = SBLRegressor(noise_variance=model.noise_variance_).fit(X[train], y[train])
        mean, std = alone.predict(X[test], return_std=True)
        misfits.append(np.mean(((y[test] - mean) / std) ** 2))
    assert model.calibration_ == pytest.approx(np.mean(misfits), rel=0.02)
    plain = SBLRegressor(noise_variance=model.noise_variance_).fit(X, y).predict(X, return_std=True)[1]
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], np.sqrt(model.calibration_) * plain, rtol=1e-6)


def test_intervals_cover_whatever_ratio_predicts_best():
    """Over 10 problems, 90 % intervals hold between 85 and 95 % of new observations."""
    rng = np.random.default_rng(6)
    inside, factors = [], []
    for _ in range(10):
        X = rng.standard_normal((280, 40))
        coef = np.zeros(40)
        coef[rng.choice(40, 4, replace=False)] = rng.uniform(0.5, 2, 4)
        y = 3 + X @ coef + 0.5 * rng.standard_normal(280)
        model = SBLRegressorCV(RATIOS).fit(X[:80], y[:80])
        mean, std = model.predict(X[80:], return_std=True)
        inside.append(np.mean(np.abs(y[80:] - mean) <= 1.6449 * std))
        factors.append(model.calibration_)
    assert 0.85 <= np.mean(inside) <= 0.95
    assert min(factors) < 0.7 or max(factors) > 1.4, "some ratios were not the noise, so there was something to mend"


def test_the_default_grid_ends_in_time(data):
    X, y = data
    model = SBLRegressorCV().fit(X, y)
    behind = model.ratios_.size - 1 - int(np.argmax(model.cv_results_["mean_test_score"]))
    assert 5 <= behind < 8
    assert model.ratios_.size < 25
    np.testing.assert_allclose(model.ratios_, np.logspace(0, -2 - np.log10(60), 25)[: model.ratios_.size])
    assert model.coefs_path_.shape == (model.ratios_.size, 40)
    whole = SBLRegressorCV(np.logspace(0, -2 - np.log10(60), 25)).fit(X, y)
    assert whole.ratios_.size == 25, "a grid that was asked for is tried whole"
    assert whole.ratio_ == model.ratio_
    for name, values in model.cv_results_.items():
        if name != "rank_test_score":
            np.testing.assert_allclose(values, whole.cv_results_[name][: values.size], rtol=1e-6, err_msg=name)


def test_choice_and_refit(data):
    X, y = data
    model = SBLRegressorCV(RATIOS).fit(X, y)
    results = model.cv_results_
    best = int(np.argmax(results["mean_test_score"]))
    assert model.ratio_ == model.ratios_[best]
    assert results["rank_test_score"][best] == 1
    alone = SBLRegressor(noise_ratio=model.ratio_).fit(X, y)
    for name in ("coef_", "intercept_", "gamma_", "noise_variance_", "sigma_", "score_", "loss_", "support_"):
        np.testing.assert_allclose(getattr(model, name), getattr(alone, name), rtol=1e-8, err_msg=name)
    np.testing.assert_array_equal(model.coefs_path_[best], model.coef_)
    np.testing.assert_array_equal((model.coefs_path_ != 0).sum(axis=1), results["n_support"])
    assert results["n_support"][0] == 0, "ratio 1 is the empty model"
    assert set(model.support_) >= {3, 20, 35}


def test_one_standard_error_is_the_sparsest_good_enough(data):
    X, y = data
    best = SBLRegressorCV(RATIOS).fit(X, y)
    model = SBLRegressorCV(RATIOS, one_standard_error=True).fit(X, y)
    scores = np.array([model.cv_results_[f"split{k}_test_score"] for k in range(5)])
    place = np.argmax(scores.mean(axis=0))
    limit = scores.mean(axis=0)[place] - scores[:, place].std(ddof=1) / np.sqrt(5)
    assert model.ratio_ == model.ratios_[scores.mean(axis=0) >= limit].max()
    assert model.ratio_ >= best.ratio_


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_equivariance(data, factor):
    X, y = data
    scales = np.where(np.arange(40) % 3 == 0, factor, 1.0)
    plain, scaled = SBLRegressorCV(cv=3).fit(X, y), SBLRegressorCV(cv=3).fit(X * scales, y / factor)
    assert scaled.ratio_ == plain.ratio_
    np.testing.assert_allclose(scaled.coef_ * scales * factor, plain.coef_, rtol=1e-5, atol=1e-9)


def test_weights_of_rows_repeated_within_their_folds(data):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, 60)
    fold = np.arange(60) % 3
    rows = np.repeat(np.arange(60), weights)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    repeated = [(np.flatnonzero(fold[rows] != k), np.flatnonzero(fold[rows] == k)) for k in range(3)]
    weighted = SBLRegressorCV(RATIOS, cv=splits).fit(X, y, sample_weight=weights)
    expected = SBLRegressorCV(RATIOS, cv=repeated).fit(X[rows], y[rows])
    np.testing.assert_allclose(
        weighted.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-7
    )
    np.testing.assert_allclose(weighted.coef_, expected.coef_, rtol=1e-7)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_jobs_splitters_and_scorers(data, n_jobs):
    X, y = data
    cv = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = SBLRegressorCV(RATIOS, cv=cv, scoring="r2", n_jobs=n_jobs, tol=1e-8).fit(X, y)
    scores = model.cv_results_["mean_test_score"]
    assert "split5_test_score" in model.cv_results_
    assert 0.9 < scores.max() <= 1
    train, test = next(cv.split(X))
    alone = SBLRegressor(noise_variance=model.noise_variances_[4], tol=1e-8).fit(X[train], y[train])
    assert model.cv_results_["split0_test_score"][4] == pytest.approx(alone.score(X[test], y[test]), rel=1e-6)


def test_a_callable_scorer_may_ask_for_the_predictive_density(data):
    def density(model, X, y):
        mean, std = model.predict(X, return_std=True)
        return float(np.mean(-np.log(std) - 0.5 * ((y - mean) / std) ** 2))

    model = SBLRegressorCV(RATIOS, scoring=density).fit(*data)
    assert 0.1 < model.noise_variance_ < 1.0, "the density wants the true noise, 0.25"


def test_sparse_is_dense(data):
    X, y = data
    X = np.where(X > 2, X, 0.0)
    dense, other = SBLRegressorCV(RATIOS).fit(X, y), SBLRegressorCV(RATIOS).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-7)
    np.testing.assert_allclose(other.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"], rtol=1e-7)


def test_several_targets_share_their_support(data):
    X, y = data
    Y = np.column_stack([y, 3.0 - X[:, 20] + X[:, 3]])
    model = SBLRegressorCV([0.1, 0.01]).fit(X, Y)
    assert model.coef_.shape == (2, 40)
    assert model.coefs_path_.shape == (2, 2, 40)
    assert model.gamma_.shape == (40,)
    assert model.predict(X, return_std=True)[1].shape == (60, 2)
    assert model.score(X, Y) > 0.9


def test_constant_target(data):
    X, _ = data
    model = SBLRegressorCV(RATIOS, cv=3).fit(X, np.full(60, 5.0))
    np.testing.assert_array_equal(model.coefs_path_, 0.0)
    np.testing.assert_allclose(model.predict(X), 5.0)
    assert model.ratio_ == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ratios": []}, "ratios must hold at least one number above 0, got none"),
        ({"ratios": [0.1, 0.0]}, "ratios must be a finite number above 0, got 0.0"),
        ({"max_iter": -1}, "max_iter must be a whole number of at least 1"),
    ],
)
def test_bad_parameters(data, options, message):
    with pytest.raises(ValueError, match=message):
        SBLRegressorCV(**options).fit(*data)


def test_verbose_reports_each_fold(data, monkeypatch, caplog, capsys):
    for name in ("rich.console", "tqdm"):
        monkeypatch.setitem(sys.modules, name, None)
    with caplog.at_level(logging.INFO, logger="fastsbl"):
        SBLRegressorCV(RATIOS, cv=3, verbose=1).fit(*data)
    for k in (1, 2, 3):
        assert f"fold {k} of 3" in caplog.text
    assert capsys.readouterr().out == ""
