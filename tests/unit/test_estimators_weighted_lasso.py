"""WeightedLasso and SBLSelector."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from fastsbl import SBLSelector, WeightedLasso
from fastsbl._base.warnings import ConvergenceWarning as LowerConvergenceWarning


@pytest.fixture
def data():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((50, 80)) + rng.uniform(-2, 2, 80)
    coef = np.zeros(80)
    coef[[1, 30, 60]] = [2.0, -1.0, 1.5]
    return X, 6.0 + X @ coef + 0.1 * rng.standard_normal(50)


def objective(X, y, model, alpha, sample_weight=None, weights=None):
    residual = y - X @ model.coef_ - model.intercept_
    weights = np.ones(X.shape[1]) if weights is None else weights
    return 0.5 * np.average(residual**2, weights=sample_weight) + alpha * weights @ np.abs(model.coef_)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_same_objective_as_scikit_learn(data, positive, weighted, fit_intercept):
    X, y = data
    weights = np.random.default_rng(0).uniform(0, 3, 50) if weighted else None
    options = {"positive": positive, "fit_intercept": fit_intercept}
    ours = WeightedLasso(0.1, tol=1e-10, **options).fit(X, y, weights)
    theirs = Lasso(0.1, tol=1e-10, max_iter=100_000, **options).fit(X, y, sample_weight=weights)
    value, expected = (objective(X, y, model, 0.1, weights) for model in (ours, theirs))
    assert value <= expected * (1 + 1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3, atol=1e-3)
    assert 0 <= ours.dual_gap_ <= 1e-10 * 0.5 * np.average(y**2, weights=weights)


def test_the_gap_bounds_the_error_of_the_objective(data):
    X, y = data
    best = objective(X, y, WeightedLasso(0.05, tol=1e-13).fit(X, y), 0.05)
    for tol in (1e-1, 1e-3):
        model = WeightedLasso(0.05, tol=tol, solver="cd").fit(X, y)
        assert -1e-12 <= objective(X, y, model, 0.05) - best <= model.dual_gap_ + 1e-12


@pytest.mark.parametrize("solver", ["working-set", "cd"])
def test_feature_weights(data, solver):
    X, y = data
    weights = np.random.default_rng(1).uniform(0.3, 2.0, 80)
    model = WeightedLasso(0.1, feature_weights=weights, tol=1e-11, solver=solver).fit(X, y)
    theirs = Lasso(0.1, tol=1e-11, max_iter=100_000).fit(X / weights, y)
    np.testing.assert_allclose(model.coef_ * weights, theirs.coef_, atol=1e-4)
    weights[1], weights[30] = 0.0, np.inf
    model = WeightedLasso(0.1, feature_weights=weights, tol=1e-11, solver=solver).fit(X, y)
    assert model.coef_[30] == 0.0
    centred = X - X.mean(axis=0)
    assert abs(centred[:, 1] @ (y - model.predict(X))) < 1e-4, "unpenalised: no correlation is left"


def test_weights_repeat_rows_and_their_scale_does_not_matter(data):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 4, 50)
    rows = np.repeat(np.arange(50), weights)
    model = WeightedLasso(0.1).fit(X, y, weights)
    for other in (WeightedLasso(0.1).fit(X[rows], y[rows]), WeightedLasso(0.1).fit(X, y, 1e-3 * weights)):
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-7)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_sparse_is_dense(data, fit_intercept):
    X, y = data
    X = np.where(np.abs(X) > 1.5, X, 0.0)
    dense = WeightedLasso(0.1, fit_intercept=fit_intercept, tol=1e-11).fit(X, y)
    other = WeightedLasso(0.1, fit_intercept=fit_intercept, tol=1e-11).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.predict(sparse.csr_matrix(X)), dense.predict(X), rtol=1e-7)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, "alpha must be a finite number above 0, got 0.0"),
        ({"alpha": "1"}, TypeError, "alpha must be a number above 0, got str"),
        ({"feature_weights": [1.0, 2.0]}, ValueError, r"feature_weights must be 80 numbers .* got shape \(2,\)"),
        ({"feature_weights": -np.ones(80)}, ValueError, "a smallest of -1.0"),
        ({"solver": "magic"}, ValueError, "solver must be one of"),
    ],
)
def test_bad_parameters(data, options, error, message):
    with pytest.raises(error, match=message):
        WeightedLasso(**options).fit(*data)


def test_convergence_warning_is_scikit_learns(data):
    X, y = data
    with (
        pytest.warns(LowerConvergenceWarning),
        pytest.warns(ConvergenceWarning, match="WeightedLasso did not converge"),
    ):
        WeightedLasso(0.001, solver="cd", max_iter=2, tol=1e-12).fit(X, y)


def test_selector_keeps_what_the_regression_uses(data):
    X, y = data
    selector = SBLSelector().fit(X, y)
    np.testing.assert_array_equal(selector.get_support(indices=True), selector.estimator_.support_)
    assert {1, 30, 60} <= set(selector.get_support(indices=True))
    kept = selector.transform(sparse.csr_matrix(X))
    np.testing.assert_array_equal(kept.toarray(), X[:, selector.get_support()])
    np.testing.assert_array_equal(selector.inverse_transform(selector.transform(X))[:, 30], X[:, 30])


def test_selector_keeps_the_most_relevant_when_nothing_pays(data):
    X, y = data
    quiet = {"noise_variance": 1e6}
    assert SBLSelector(**quiet, min_features=1).fit(X, y).estimator_.support_.size == 0
    centred = X - X.mean(axis=0)
    relevance = np.abs(centred.T @ (y - y.mean())) / np.linalg.norm(centred, axis=0)
    for count in (1, 3):
        kept = SBLSelector(**quiet, min_features=count).fit(X, y).get_support(indices=True)
        assert set(kept) == set(np.argsort(-relevance)[:count])
    assert SBLSelector(**quiet, min_features=0).fit(X, y).get_support().sum() == 0
    with pytest.raises(ValueError, match="min_features must be a whole number of at least 0, got -1"):
        SBLSelector(min_features=-1).fit(X, y)
