"""`fit_sbl` and its relatives from outside: every kind of data and option, judged by dense linear algebra."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from fastsbl._base.warnings import ConditioningWarning, ConvergenceWarning
from fastsbl.dictionary import as_dictionary
from fastsbl.sbl import fit_sbl, fit_sbl_batch, loss, sbl_lambda_max, sbl_path
from fastsbl.screening import rule_names

N, n = 30, 100
STORAGES = {
    "F": np.asfortranarray,
    "C": np.ascontiguousarray,
    "csc": sparse.csc_array,
    "operator": aslinearoperator,
    "F float32": lambda X: np.asfortranarray(X, dtype=np.float32),
    "C float32": lambda X: np.ascontiguousarray(X, dtype=np.float32),
    "csc float32": lambda X: sparse.csc_array(X.astype(np.float32)),
    "Dictionary": as_dictionary,
    "with Gram": lambda X: as_dictionary(X).with_gram(),
    "with single Gram": lambda X: as_dictionary(X).with_gram(single=True),
    "csc with Gram": lambda X: as_dictionary(sparse.csc_array(X)).with_gram(),
    "float32 with Gram": lambda X: as_dictionary(np.asfortranarray(X, dtype=np.float32)).with_gram(),
}


def make_problem(seed, *, kind="real", targets=None, size=4, noise=0.3, shape=(N, n), norms=True):
    rng = np.random.default_rng(seed)

    def draw(*size):
        values = rng.standard_normal(size)
        return values + 1j * rng.standard_normal(size) if kind == "complex" else values

    X = draw(*shape)
    if norms:
        X *= 10.0 ** rng.uniform(-0.5, 0.5, shape[1])
    coef = np.zeros((shape[1], targets or 1), dtype=X.dtype)
    chosen = rng.choice(shape[1], size, replace=False)
    coef[chosen] = (1.0 + np.abs(draw(size, targets or 1))) / np.linalg.norm(X[:, chosen], axis=0)[:, None] * 5
    if kind != "positive":
        coef *= rng.choice([-1.0, 1.0], coef.shape)
    Y = X @ coef + noise * draw(shape[0], targets or 1)
    return X, Y if targets else Y[:, 0]


def covariance(X, result):
    return result.lam * np.eye(X.shape[0]) + (X * result.gamma) @ X.conj().T


def ratios(X, y, result):
    """|phi_i' S^-1 y| / u_i from dense algebra: at most 1 at a fixed point, and 1 on the support."""
    S = covariance(X, result)
    products = (X.conj().T @ np.linalg.solve(S, y)).reshape(X.shape[1], -1)
    squares = np.einsum("ij,ij->j", X.conj(), np.linalg.solve(S, X)).real
    sizes = np.linalg.norm(products, axis=1) / np.sqrt(products.shape[1])
    return np.divide(sizes, np.sqrt(squares), out=np.zeros(sizes.size), where=squares > 0)


# -- fixed points --------------------------------------------------------------------------------------
@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("init", ["null", "unit"])
def test_converged_fit_is_a_fixed_point(init, kind, targets):
    for seed in range(3):
        X, y = make_problem(seed, kind=kind, targets=targets)
        result = fit_sbl(X, y, 0.1, init=init, tol=1e-9, inner_tol=1e-13, max_iter=5000)
        assert result.converged
        assert 4 <= result.support.size <= N
        expected = ratios(X, y, result)
        inside = result.gamma > 0
        np.testing.assert_allclose(expected[inside], 1.0, atol=1e-4)
        assert expected[~inside].max() <= 1 + 1e-6
        certificate = result.certificate()
        np.testing.assert_allclose(certificate.ratio, expected, atol=1e-6)
        assert certificate.holds
        assert certificate.largest_outside == pytest.approx(expected[~inside].max(), abs=1e-6)
        assert certificate.largest_error == pytest.approx(np.abs(expected[inside] - 1).max(), abs=1e-6)
        values = [record["loss"] for record in result.history]
        assert np.diff(values).max() <= 1e-7 * abs(values[-1])
        assert result.loss == pytest.approx(loss(X, y, result.gamma, 0.1), rel=1e-8)


@pytest.mark.parametrize("storage", STORAGES)
def test_every_storage(storage):
    X, y = make_problem(1)
    X[:, 7] = 0.0
    made = STORAGES[storage](X)
    single = "32" in storage
    if single:
        X = X.astype(np.float32).astype(float)
    expected = fit_sbl(X, y, 0.1, bounds=False, screening=None, tol=1e-7)
    found = fit_sbl(made, y, 0.1, tol=1e-7)
    assert np.array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-5)
    np.testing.assert_allclose(found.gamma, expected.gamma, rtol=1e-3 if single else 1e-4)
    assert found.loss == pytest.approx(expected.loss, rel=1e-7)
    np.testing.assert_allclose(found.weights[7], 0.0)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-4)
    assert found.certificate().ratio[7] == 0.0
    assert found.coef.dtype == found.residual.dtype == np.float64


# -- nothing that saves work changes the answer --------------------------------------------------------
WAYS = [dict(bounds=b, screening=s) for b in (True, False) for s in (None, *rule_names())]


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("design", ["gauss", "correlated"])
def test_bounds_and_rules_change_nothing(design, ratio):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, n))
    if design == "correlated":
        for j in range(1, n):
            X[:, j] = 0.95 * X[:, j - 1] + np.sqrt(1 - 0.95**2) * X[:, j]
    X /= np.linalg.norm(X, axis=0)
    y = X[:, [3, 40, 80]] @ np.array([3.0, -2.0, 2.0]) + 0.1 * rng.standard_normal(N)
    lam = ratio * np.abs(X.T @ y).max()
    options = dict(init="unit", tol=1e-5, max_iter=4000)
    expected = fit_sbl(X, y, lam, bounds=False, screening=None, **options)
    assert expected.converged
    grams = [(as_dictionary(X).with_gram(single=single), {}) for single in (False, True)]
    for phi, way in [*((X, way) for way in WAYS), *grams]:
        found = fit_sbl(phi, y, lam, **way, **options)
        label = f"{phi!r:.60} {way}"
        assert found.n_iter == expected.n_iter, label
        assert np.array_equal(found.support, expected.support), label
        np.testing.assert_allclose(found.coef, expected.coef, atol=2e-5, err_msg=label)
        for ours, theirs in zip(found.history, expected.history, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6), label
            assert ours["support"] == theirs["support"], label


def test_a_union_leaves_out_tests_that_read_more_than_they_spare():
    X, y = make_problem(2)
    lam = 0.3 * np.abs(X.T @ y).max()
    passes = {rule: fit_sbl(X, y, lam, screening=rule).passes for rule in ("holder", "auto", "two_hyperplanes")}
    assert passes["auto"] == passes["holder"] < passes["two_hyperplanes"]


@pytest.mark.parametrize("solver", ["cd", "cvxpy"])
def test_other_inner_solvers(solver):
    if solver == "cvxpy":
        pytest.importorskip("cvxpy", reason="CVXPY is not installed")
    X, y = make_problem(2)
    options = dict(tol=1e-3) if solver == "cvxpy" else {}
    expected = fit_sbl(X, y, 0.5, **options)
    found = fit_sbl(X, y, 0.5, solver=solver, inner_tol=1e-7 if solver == "cvxpy" else 1e-12, **options)
    assert np.array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-3 if solver == "cvxpy" else 1e-5)


@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_groups_of_unequal_size(kind, targets):
    X, y = make_problem(0, kind=kind, targets=targets)
    label = np.random.default_rng(0).integers(0, 25, n)
    result = fit_sbl(X, y, 0.1, groups=label, tol=1e-6, inner_tol=1e-11, max_iter=5000)
    assert result.converged
    S, Y = covariance(X, result), y.reshape(N, -1)
    products = X.conj().T @ np.linalg.solve(S, Y)
    squares = np.einsum("ij,ij->j", X.conj(), np.linalg.solve(S, X)).real
    outside = []
    for group in (label == g for g in np.unique(label)):
        gamma = result.gamma[group]
        assert np.ptp(gamma) == 0.0  # one gamma for each group
        ratio = np.linalg.norm(products[group]) / np.sqrt(Y.shape[1] * squares[group].sum())
        if gamma[0] > 0:
            assert ratio == pytest.approx(1.0, abs=1e-4)
        else:
            outside.append(ratio)
    assert len(outside) > 5
    assert max(outside) <= 1 + 1e-6
    certificate = result.certificate()
    assert certificate.largest_outside == pytest.approx(max(outside), abs=1e-6)
    values = [record["loss"] for record in result.history]
    assert np.diff(values).max() <= 1e-9 * abs(values[-1])
    assert result.loss == pytest.approx(loss(X, y, result.gamma, 0.1), rel=1e-9)


# -- hard problems -------------------------------------------------------------------------------------
def test_nearly_dependent_columns():
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((25, 3)) @ rng.standard_normal((3, 150)) + 0.05 * rng.standard_normal((25, 150))
        y = X[:, :3].sum(axis=1) + 0.1 * rng.standard_normal(25)
        lam = 10.0 ** rng.uniform(-4, 0)
        slow = fit_sbl(X, y, lam, max_iter=5000, bounds=False, screening=None)
        for phi in (as_dictionary(X), as_dictionary(X).with_gram(), as_dictionary(X).with_gram(single=True)):
            fast = fit_sbl(phi, y, lam, max_iter=5000)
            assert fast.n_iter == slow.n_iter
            for ours, theirs in zip(fast.history, slow.history, strict=True):
                assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6, abs=1e-6)
            assert np.diff([record["loss"] for record in fast.history]).max() <= 1e-8 * abs(fast.loss)
            assert fast.certificate().holds


def test_copies_of_columns():
    X, y = make_problem(32)
    once, thrice = fit_sbl(X, y, 0.1, tol=1e-7), fit_sbl(np.hstack([X, -X, X]), y, 0.1, tol=1e-7)
    assert thrice.loss == pytest.approx(once.loss, rel=1e-5)
    signs = np.repeat([1.0, -1.0, 1.0], n)
    np.testing.assert_allclose((thrice.coef * signs).reshape(3, n).sum(axis=0), once.coef, atol=1e-3)


@pytest.mark.parametrize("power", [-140, -100, 100, 140])
def test_extreme_units(power):
    X, y = make_problem(33)
    expected, found = fit_sbl(X, y, 0.1), fit_sbl(X, y * 10.0**power, 0.1 * 10.0 ** (2 * power))
    np.testing.assert_allclose(found.coef / 10.0**power, expected.coef, rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("lam", [0.1, "learn"])
def test_very_few_samples(lam, rows):
    X, y = make_problem(34)
    result = fit_sbl(X[:rows], y[:rows], lam)
    assert result.converged
    assert result.support.size <= rows
    assert np.isfinite([result.loss, result.lam]).all()


def test_several_threads_share_a_dictionary():
    X, y = make_problem(35)
    expected = [fit_sbl(X, k * y, 0.1).coef for k in range(1, 9)]
    phi = as_dictionary(X)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda k: fit_sbl(phi, k * y, 0.1).coef, range(1, 9)))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


# -- zero ----------------------------------------------------------------------------------------------
def test_zero_is_no_reason_to_stop():
    """Start u = 1 and lambda_max <= lam < LAM_SBL: the first answer is zero, the second is not."""
    seen = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((N, n))
        X /= np.linalg.norm(X, axis=0)
        y = 4 * X[:, 0] + 0.3 * rng.standard_normal(N)
        first, last = np.abs(X.T @ y).max(), sbl_lambda_max(X, y)
        assert first < last
        result = fit_sbl(X, y, 0.5 * (first + last), init="unit")
        assert result.history[0]["support"] == 0
        assert result.history[1]["support"] > 0
        assert result.converged
        seen += result.support.size > 0
    assert seen == 10


@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_large_noise_explains_everything(kind, targets):
    X, y = make_problem(3, kind=kind, targets=targets)
    largest = sbl_lambda_max(X, y)
    above = fit_sbl(X, y, 1.001 * largest)
    if kind == "real" and targets is None:
        assert above.passes == 1  # norms and Phi'y tell everything: the weights at gamma = 0 are the norms
    assert above.converged
    assert above.support.size == 0
    assert above.n_iter == 1
    assert not above.coef.any()
    assert above.loss == pytest.approx(loss(X, y, np.zeros(n), 1.001 * largest))
    assert fit_sbl(X, y, 0.98 * largest).support.size > 0


@pytest.mark.parametrize(
    "shape",
    [
        (N,),
        (N, 2),
    ],
)
def test_zero_target(shape, capfd):
    X, _ = make_problem(4)
    result = fit_sbl(X, np.zeros(shape), 0.3)
    assert result.converged
    assert result.support.size == 0
    assert result.loss == pytest.approx(np.prod(shape) * np.log(0.3))
    assert capfd.readouterr() == ("", "")


def test_nothing_correlates_positively():
    """With theta >= 0, gamma = 0 is a fixed point as soon as no column points along y."""
    rng = np.random.default_rng(5)
    X = np.abs(rng.standard_normal((N, n)))
    result = fit_sbl(X, -np.abs(rng.standard_normal(N)), 0.1, positive=True)
    assert result.converged
    assert result.support.size == 0


def test_noise_within_rounding_of_the_largest():
    for seed in range(40):
        X, y = make_problem(seed)
        for offset in (0.0, 1e-16, 3e-16, 1e-15, 3e-15, 1e-14):
            result = fit_sbl(X, y, sbl_lambda_max(X, y) * (1 - offset))
            assert result.converged
            assert np.abs(result.coef).max() < 1e-4


@pytest.mark.parametrize("offset", [1e-12, 1e-9, 1e-6])
def test_noise_just_below_the_largest(offset):
    for seed in range(10):
        X, y = make_problem(seed)
        result = fit_sbl(X, y, sbl_lambda_max(X, y) * (1 - offset))
        assert result.converged
        assert 0 < np.abs(result.coef).max() < 1e-4


# -- scale ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_scaling_the_target(factor):
    X, y = make_problem(6)
    for lam in (0.1, "learn"):
        scaled = lam if lam == "learn" else lam * factor**2
        expected, found = fit_sbl(X, y, lam), fit_sbl(X, factor * y, scaled)
        assert np.array_equal(found.support, expected.support)
        np.testing.assert_allclose(found.coef / factor, expected.coef, rtol=1e-6)
        np.testing.assert_allclose(found.gamma / factor**2, expected.gamma, rtol=1e-5)
        assert found.lam == pytest.approx(expected.lam * factor**2, rel=1e-6)
        assert found.n_iter == expected.n_iter


@pytest.mark.parametrize("power", [1, 6])
def test_scaling_the_columns(power):
    X, y = make_problem(7)
    scale = 10.0 ** np.random.default_rng(8).uniform(-power, power, n)
    expected, found = fit_sbl(X, y, 0.1), fit_sbl(X * scale, y, 0.1)
    assert np.array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.coef * scale, expected.coef, rtol=1e-6)
    np.testing.assert_allclose(found.gamma * scale**2, expected.gamma, rtol=1e-5)
    assert found.loss == pytest.approx(expected.loss, rel=1e-9)
    unit = fit_sbl(X * scale, y, 0.1, init="unit", max_iter=5000)
    assert not np.allclose(unit.history[0]["loss"], found.history[0]["loss"])  # that start is not invariant


# -- posterior -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_posterior(kind, targets):
    X, y = make_problem(9, kind=kind, targets=targets)
    result = fit_sbl(X, y, 0.1, tol=1e-7)
    S, gamma = covariance(X, result), result.gamma
    posterior = result.posterior()
    weighted = X * gamma
    full = np.diag(gamma) - weighted.conj().T @ np.linalg.solve(S, weighted)
    used = result.support
    assert np.array_equal(posterior.support, used)
    mean = weighted.conj().T @ np.linalg.solve(S, y)
    np.testing.assert_allclose(posterior.mean, mean[used], atol=1e-4 if targets or kind == "complex" else 1e-6)
    np.testing.assert_allclose(result.coef, mean, atol=1e-4 if targets or kind == "complex" else 1e-6)
    np.testing.assert_allclose(posterior.covariance, full[np.ix_(used, used)], atol=1e-9)
    np.testing.assert_allclose(posterior.std, np.sqrt(np.diag(full).real[used]), atol=1e-9)
    index = np.array([0, used[1], 5, used[0], used[1]])
    np.testing.assert_allclose(posterior.covariance_of(index), full[np.ix_(index, index)], atol=1e-9)
    np.testing.assert_allclose(posterior.covariance_of(used[0]), full[used[0], used[0]].reshape(1, 1), atol=1e-9)
    rows = make_problem(10, kind=kind)[0][:7]
    predicted, variance = posterior.predict(rows)
    np.testing.assert_allclose(predicted, rows @ result.coef, atol=1e-9)
    np.testing.assert_allclose(
        variance, 0.1 + np.einsum("ij,jk,ik->i", rows, full, rows.conj()).real, rtol=1e-8, atol=1e-9
    )
    count = targets or 1
    fit = np.vdot(y, np.linalg.solve(S, y)).real
    if kind == "complex":
        evidence = -(count * np.linalg.slogdet(S)[1] + fit + N * count * np.log(np.pi))
    else:
        evidence = -0.5 * (count * np.linalg.slogdet(S)[1] + fit + N * count * np.log(2 * np.pi))
    assert posterior.evidence == result.evidence == pytest.approx(evidence, rel=1e-9)
    assert posterior.lam == 0.1


def test_posterior_of_an_empty_model():
    X, y = make_problem(11)
    posterior = fit_sbl(X, y, 2 * sbl_lambda_max(X, y)).posterior()
    assert posterior.mean.shape == (0,)
    assert not posterior.covariance_of([1, 2]).any()
    mean, variance = posterior.predict(X[:3])
    assert not mean.any()
    np.testing.assert_allclose(variance, posterior.lam)


def test_posterior_refuses_what_it_cannot_answer():
    X, y = make_problem(11)
    posterior = fit_sbl(X, y, 0.1).posterior()
    for bad in ([-1], [n], [0, n + 3]):
        with pytest.raises(ValueError, match="index must be column numbers from 0 to 99"):
            posterior.covariance_of(bad)
    with pytest.raises(ValueError, match="X must have 100 columns, got 99"):
        posterior.predict(X[:, 1:])


def test_posterior_covers_the_truth():
    """Standardised errors of the coefficients are standard normal if the model is the true one."""
    errors = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((N, n))
        truth = np.zeros(n)
        truth[:3] = [5.0, -4.0, 6.0]
        result = fit_sbl(X, X @ truth + 0.5 * rng.standard_normal(N), 0.25 * 4)
        posterior = result.posterior()
        if {0, 1, 2} <= set(posterior.support.tolist()):
            place = np.searchsorted(posterior.support, [0, 1, 2])
            errors.extend((posterior.mean[place] - truth[:3]) / posterior.std[place])
    assert len(errors) > 150
    assert 0.3 < np.std(errors) < 1.2  # lam was given four times too large


# -- options -------------------------------------------------------------------------------------------
def test_positive():
    for seed in range(4):
        X, y = make_problem(seed, kind="positive")
        free, held = fit_sbl(X, y, 0.1, tol=1e-6), fit_sbl(X, y, 0.1, positive=True, tol=1e-6)
        assert (free.coef < 0).any()
        assert (held.coef >= 0).all()
        assert held.converged
        values = [record["loss"] for record in held.history]
        assert np.diff(values).max() <= 1e-7 * abs(values[-1])
        slow = fit_sbl(X, y, 0.1, positive=True, tol=1e-6, bounds=False, screening=None)
        assert np.array_equal(slow.support, held.support)
        np.testing.assert_allclose(slow.coef, held.coef, atol=1e-5)
        mean = held.gamma * (X.T @ np.linalg.solve(covariance(X, held), y))
        np.testing.assert_allclose(held.coef, mean, atol=1e-6)


def test_threshold():
    X, y = make_problem(12)
    full = fit_sbl(X, y, 0.01)
    sizes = full.gamma * np.linalg.norm(X, axis=0) ** 2
    share = np.median(sizes[full.support]) / sizes.max()
    cut = fit_sbl(X, y, 0.01, threshold=float(share))
    kept = sizes > share * sizes.max()
    assert 0 < kept.sum() < full.support.size
    assert np.array_equal(cut.gamma > 0, kept)
    np.testing.assert_allclose(cut.gamma[kept], full.gamma[kept])
    mean = cut.gamma * (X.T @ np.linalg.solve(covariance(X, cut), y))
    np.testing.assert_allclose(cut.coef, mean, atol=1e-8)
    np.testing.assert_allclose(cut.residual, y - X @ cut.coef, atol=1e-10)
    assert cut.loss == pytest.approx(loss(X, y, cut.gamma, 0.01), rel=1e-9)
    scale = 10.0 ** np.random.default_rng(0).uniform(-2, 2, n)
    scaled = fit_sbl(X * scale, 10 * y, 1.0, threshold=float(share))
    assert np.array_equal(scaled.support, cut.support)


def test_too_few_iterations():
    X, y = make_problem(13)
    with pytest.warns(
        ConvergenceWarning, match=r"stopped after 3 outer iterations: gamma still changes by .* raise max_iter"
    ):
        result = fit_sbl(X, y, 0.1, max_iter=3)
    assert not result.converged
    assert result.n_iter == len(result.history) == 3
    np.testing.assert_allclose(result.residual, y - X @ result.coef, atol=1e-9)


def test_tiny_noise_warns():
    X, y = make_problem(14)
    with pytest.warns(ConditioningWarning, match=r"below 1e-13 \|\|y\|\|\^2"):
        result = fit_sbl(X, y, 1e-15 * float(y @ y), tol=0.9, max_iter=2000)
    assert np.isfinite(result.coef).all()
    assert np.isfinite(result.loss)


@pytest.mark.filterwarnings("ignore::fastsbl._base.warnings.ConvergenceWarning")  # gamma has no digits there
@pytest.mark.parametrize("init", ["null", "unit"])
@pytest.mark.parametrize("lam", [1e-20, 1e-100, 1e-300])
def test_noise_that_double_precision_cannot_hold_is_answered_with_a_warning(lam, init):
    X, y = make_problem(14, shape=(8, 20))
    with pytest.warns(ConditioningWarning, match="singular to double precision"):
        result = fit_sbl(X, y, lam, init=init, max_iter=20)
    assert np.isfinite(result.coef).all()
    assert np.linalg.norm(result.residual) < 1e-6 * np.linalg.norm(y)


def test_history_and_callback():
    X, y = make_problem(15)
    seen = []
    result = fit_sbl(X, y, 0.1, callback=lambda record: seen.append(dict(record)))
    assert seen == result.history
    assert [record["iteration"] for record in seen] == list(range(1, result.n_iter + 1))
    assert seen[-1]["support"] == result.support.size
    assert seen[-1]["change"] <= 1e-4
    assert (np.diff([record["passes"] for record in seen]) >= 0).all()
    assert all(record["gap"] <= 1e-6 * (y @ y) for record in seen)


@pytest.mark.parametrize("when", [1, 2, 4])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_interruption_leaves_nothing_half_done(kind, when):
    X, y = make_problem(16, kind=kind)
    expected = fit_sbl(X, y, 0.1)
    phi = as_dictionary(X)

    def stop(record):
        if record["iteration"] == when:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_sbl(phi, y, 0.1, callback=stop)
    again = fit_sbl(phi, y, 0.1)
    assert np.array_equal(again.coef, expected.coef)
    assert np.array_equal(again.gamma, expected.gamma)


def test_warm_start():
    X, y = make_problem(17)
    first = fit_sbl(X, y, 0.1, tol=1e-8, max_iter=5000)
    for start in (first, first.gamma):
        again = fit_sbl(X, y, 0.1, warm_start=start)
        assert again.n_iter <= 3 < first.n_iter
        np.testing.assert_allclose(again.coef, first.coef, atol=1e-6)
    near = fit_sbl(X, y, 0.12, warm_start=first)
    assert near.converged
    assert near.certificate().holds
    nothing = fit_sbl(X, y, 0.1, warm_start=np.zeros(n))
    assert np.array_equal(nothing.coef, fit_sbl(X, y, 0.1).coef)


def test_own_first_weights():
    X, y = make_problem(18)
    norms = np.linalg.norm(X, axis=0)
    expected, found = fit_sbl(X, y, 0.1), fit_sbl(X, y, 0.1, init=norms / np.sqrt(0.1))
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-8)
    assert np.array_equal(fit_sbl(X, y, 0.1, init=np.ones(n)).coef, fit_sbl(X, y, 0.1, init="unit").coef)


def test_fits_do_not_touch_their_input():
    X, y = make_problem(19)
    X, before = np.asfortranarray(X), y.copy()
    kept = X.copy()
    X.flags.writeable = y.flags.writeable = False
    result = fit_sbl(X, y, 0.1)
    assert np.array_equal(X, kept)
    assert np.array_equal(y, before)
    assert result.converged


def test_passes_count_every_read():
    X, y = make_problem(20)
    phi = as_dictionary(X)
    result = fit_sbl(phi, y, 0.1)
    assert result.passes == pytest.approx(phi.passes)


def test_inner_products_in_memory_save_the_reads():
    rng = np.random.default_rng(9)
    X, Y = rng.standard_normal((40, 300)), rng.standard_normal((40, 6))
    phi = as_dictionary(X).with_gram()
    np.testing.assert_allclose(phi.whole_gram, X.T @ X, atol=1e-12)
    assert phi.with_gram().whole_gram is phi.whole_gram
    single = as_dictionary(X).with_gram(single=True).whole_gram
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, X.T @ X, atol=1e-4)
    with pytest.raises(ValueError, match="single=True needs columns with norms between 1e-10 and 1e\\+10"):
        as_dictionary(1e-12 * X).with_gram(single=True)
    assert as_dictionary(X).whole_gram is None
    read = phi.passes
    fits = fit_sbl_batch(phi, Y, 0.02, init="unit")
    assert phi.passes - read <= 2.0 + 6 * 1.2  # norms, products with targets together, a few columns of each fit
    for k, found in enumerate(fits):
        expected = fit_sbl(X, Y[:, k], 0.02, init="unit")
        assert np.array_equal(found.support, expected.support)
        np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6)


@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_single_precision_bears_targets_of_any_size(size):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 120))
    y = size * (X[:, :4].sum(axis=1) + 0.3 * rng.standard_normal(40))
    lam = 0.01 * sbl_lambda_max(X, y)
    found, expected = (fit_sbl(phi, y, lam) for phi in (as_dictionary(X).with_gram(single=True), X))
    assert np.array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6 * size)


def test_certificate_counts_its_reads():
    X, y = make_problem(20)
    phi = as_dictionary(X)
    result = fit_sbl(phi, y, 0.1)
    before = phi.passes
    certificate = result.certificate()
    assert certificate.passes == pytest.approx(2.0)
    assert phi.passes > before


# -- paths and batches ---------------------------------------------------------------------------------
@pytest.mark.parametrize("targets", [None, 2])
@pytest.mark.parametrize("relative_to", ["lambda_max", "sbl_lambda_max"])
@pytest.mark.parametrize("init", ["null", "unit"])
def test_path_equals_separate_fits(init, relative_to, targets):
    X, y = make_problem(21, targets=targets)
    grid = [0.1, 1.0, 0.03, 0.3]
    sizes = np.linalg.norm((X.T @ y).reshape(n, -1), axis=1)
    reference = sizes.max() if relative_to == "lambda_max" else sbl_lambda_max(X, y)
    path = sbl_path(X, y, grid, relative_to=relative_to, init=init)
    for ratio, result in zip(grid, path, strict=True):
        expected = fit_sbl(X, y, ratio * reference, init=init)
        assert result.lam == pytest.approx(ratio * reference)
        assert np.array_equal(result.support, expected.support)
        np.testing.assert_allclose(result.coef, expected.coef, atol=1e-3 if targets else 1e-7)
        assert result.loss == pytest.approx(expected.loss, rel=1e-5)
    if targets is None:  # columns in hand and products are shared
        assert sum(result.passes for result in path) < sum(
            fit_sbl(X, y, ratio * reference, init=init).passes for ratio in grid
        )


def test_path_that_follows():
    X, y = make_problem(22)
    grid = [0.5, 0.3, 0.1]
    followed = sbl_path(X, y, grid, follow=True)
    for result in followed:
        assert result.converged
        assert result.certificate().holds
    assert sum(r.n_iter for r in followed) < sum(r.n_iter for r in sbl_path(X, y, grid))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("jobs", [1, 2])
def test_batch_equals_separate_fits(jobs, storage):
    X, Y = make_problem(23, targets=6)
    lam = np.array([0.1, 0.2, 0.05, 0.1, 0.1, 1e4])
    made = STORAGES[storage](X)
    results = fit_sbl_batch(made, Y, lam, n_jobs=jobs)
    assert len(results) == 6
    assert results[-1].support.size == 0
    for k, result in enumerate(results):
        expected = fit_sbl(made, Y[:, k], float(lam[k]))
        assert result.lam == lam[k]
        assert result.n_iter == expected.n_iter
        assert np.array_equal(result.support, expected.support)
        np.testing.assert_allclose(result.coef, expected.coef, rtol=0, atol=1e-8)
        assert result.coef.shape == (n,)


def test_batch_with_few_fits_at_work(monkeypatch):
    from fastsbl.sbl import together

    X, Y = make_problem(24, targets=7)
    whole = fit_sbl_batch(X, Y, 0.1, n_jobs=1)
    monkeypatch.setattr(together, "_MOST_FITS", 3)
    monkeypatch.setattr(together, "_MOST_VECTORS", 2)
    for a, b in zip(fit_sbl_batch(X, Y, 0.1, n_jobs=2), whole, strict=True):
        np.testing.assert_allclose(a.coef, b.coef, atol=1e-8)


@pytest.mark.parametrize("shape", [(N, n), (200, 400)])
def test_batch_at_the_largest_noise(shape):
    X, Y = make_problem(25, targets=40, shape=shape)
    lam = np.array([sbl_lambda_max(X, y) for y in Y.T])
    for result in fit_sbl_batch(X, Y, lam, n_jobs=1):
        assert result.converged
        assert np.abs(result.coef).max() < 1e-6


def test_batch_calls_back_and_passes_errors_on():
    X, Y = make_problem(26, targets=4)
    seen = {}
    results = fit_sbl_batch(X, Y, 0.1, n_jobs=2, callback=seen.__setitem__)
    assert sorted(seen) == [0, 1, 2, 3]
    assert all(seen[k] is results[k] for k in seen)

    def fail(number, result):
        raise KeyboardInterrupt

    phi = as_dictionary(X)
    with pytest.raises(KeyboardInterrupt):
        fit_sbl_batch(phi, Y, 0.1, n_jobs=2, callback=fail)
    np.testing.assert_allclose(fit_sbl_batch(phi, Y, 0.1)[0].coef, results[0].coef, atol=1e-12)


# -- learning the noise --------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"targets": 5}, {"kind": "complex"}, {"kind": "positive"}], ids=str)
def test_learned_noise_is_near_the_truth(options):
    learned, sizes = [], []
    sigma2 = 0.09 * (2 if options.get("kind") == "complex" else 1)
    for seed in range(7):
        X, y = make_problem(100 + seed, shape=(60, 150), **options)
        result = fit_sbl(X, y, positive=options.get("kind") == "positive")
        learned.append(result.lam / sigma2)
        sizes.append(result.support.size)
        assert result.converged
        assert result.noise_path
        assert result.loss == pytest.approx(loss(X, y, result.gamma, result.lam), rel=1e-8)
        np.testing.assert_allclose(result.residual, y - X @ result.coef, atol=1e-10)
        assert (
            min(c.score for c in result.noise_path)
            == min((c for c in result.noise_path if c.lam == result.lam), key=lambda c: c.score).score
        )
        if options.get("kind") == "positive":
            assert (result.coef >= 0).all()
    assert 0.5 < np.median(learned) < 2.0
    assert np.median(sizes) == 4


def test_noise_alone_is_all_noise():
    empty = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((N, n)), 2 * rng.standard_normal(N)
        result = fit_sbl(X, y)
        empty += result.support.size == 0
        if result.support.size == 0:
            assert not result.coef.any()
            assert result.lam == pytest.approx(y @ y / N, rel=1e-6)
    assert empty >= 8


@pytest.mark.parametrize("options", [{}, {"positive": True}, {"groups": np.arange(40) // 3}, {"bounds": False}])
def test_a_target_of_zero_has_no_features(options):
    X, _ = make_problem(27)
    result = fit_sbl(X[:, :40], np.zeros(N), **options)
    assert result.converged
    assert result.support.size == 0
    assert 0 < result.lam < 1e-150
    assert np.isfinite([result.loss, result.evidence]).all()
    assert result.certificate().holds


def test_a_target_that_no_column_reaches_is_noise():
    rng = np.random.default_rng(28)
    X, y = np.zeros((N, 3)), rng.standard_normal(N)
    X[0], y[0] = 1.0, 0.0
    for dictionary in (np.zeros((N, 3)), X):
        result = fit_sbl(dictionary, y)
        assert result.converged
        assert result.support.size == 0
        assert result.lam == pytest.approx(y @ y / N)


# -- bad input -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (ValueError, r"lam must be a finite number above 0, got 0 \(", {"lam": 0}),
        (ValueError, "lam must be a finite number above 0, got -1.0", {"lam": -1.0}),
        (ValueError, "lam must be a finite number above 0, got nan", {"lam": np.nan}),
        (TypeError, "lam must be a number above 0, got NoneType", {"lam": None}),
        (ValueError, "lam must be a number above 0 or 'learn', got 'guess'", {"lam": "guess"}),
        (ValueError, "init must be one of 'null', 'unit'; got 'zero'", {"init": "zero"}),
        (ValueError, r"init must be a real array of shape \(100,\)", {"init": np.ones(3)}),
        (ValueError, "init must be above 0 for every column that is not zero", {"init": np.zeros(100)}),
        (ValueError, "screening", {"screening": "none such"}),
        (ValueError, "solver must be one of", {"solver": "magic"}),
        (TypeError, "bounds must be True or False, got int: 1", {"bounds": 1}),
        (TypeError, "positive must be True or False", {"positive": "yes"}),
        (ValueError, "threshold must be below 1", {"threshold": 1.0}),
        (ValueError, "threshold must be a finite number above 0", {"threshold": -0.1}),
        (ValueError, "tol must be a finite number above 0", {"tol": 0}),
        (ValueError, "inner_tol must be a finite number above 0", {"inner_tol": -1e-3}),
        (ValueError, "max_iter must be a whole number of at least 1, got 0", {"max_iter": 0}),
        (TypeError, "max_iter must be a whole number of at least 1, got float", {"max_iter": 10.0}),
        (TypeError, "callback must be callable, got int", {"callback": 3}),
        (ValueError, "warm_start must be 100 finite numbers of at least 0", {"warm_start": np.ones(3)}),
        (ValueError, "warm_start must be 100 finite numbers of at least 0", {"warm_start": -np.ones(100)}),
        (ValueError, "warm_start needs a given lam", {"lam": "learn", "warm_start": np.ones(100)}),
    ],
)
def test_bad_options(error, text, options):
    X, y = make_problem(28)
    with pytest.raises(error, match=text):
        fit_sbl(X, y, **{"lam": 0.1, **options})


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (r"y must have shape \(30,\) or \(30, L\)", lambda X, y: (X, y[1:])),
        (r"y must have shape \(30,\) or \(30, L\) with L >= 1", lambda X, y: (X, y[:, None][:, :0])),
        ("y must be finite, got 1 NaN or infinite values", lambda X, y: (X, np.where(np.arange(N) == 3, np.nan, y))),
        ("dictionary must be finite", lambda X, y: (np.where(np.arange(n) == 3, np.inf, X), y)),
        ("y must stay below 1e150", lambda X, y: (X, 1e200 * y)),
    ],
)
def test_bad_data(text, change):
    X, y = change(*make_problem(29))
    with pytest.raises(ValueError, match=text):
        fit_sbl(X, y, 0.1)


def test_positive_needs_real_data_and_one_target():
    for options in ({"kind": "complex"}, {"targets": 2}):
        X, y = make_problem(30, **options)
        with pytest.raises(ValueError, match="positive=True needs a real dictionary"):
            fit_sbl(X, y, 0.1, positive=True)
        with pytest.raises(ValueError, match="solver='cd' takes real data"):
            fit_sbl(X, y, 0.1, solver="cd")


def test_bad_input_to_paths_and_batches():
    X, Y = make_problem(31, targets=3)
    with pytest.raises(ValueError, match="ratios must be a finite number above 0"):
        sbl_path(X, Y[:, 0], [0.1, 0.0])
    with pytest.raises(ValueError, match="relative_to must be one of"):
        sbl_path(X, Y[:, 0], [0.1], relative_to="y")
    with pytest.raises(ValueError, match=r"Y must have shape \(30, M\), one target per column"):
        fit_sbl_batch(X, Y[:, 0], 0.1)
    for bad in (np.ones(2), np.array([1.0, 0.0, 1.0]), np.array([1.0, np.nan, 1.0])):
        with pytest.raises(ValueError, match="lam must be a number above 0 or 3 of them"):
            fit_sbl_batch(X, Y, bad)
    with pytest.raises(ValueError, match="n_jobs must be a whole number of at least 1"):
        fit_sbl_batch(X, Y, 0.1, n_jobs=0)


def test_an_inner_problem_that_is_not_solved_is_no_fixed_point():
    """Columns of a Hilbert matrix at a tiny noise variance: nothing moves any more, but not because it is right."""
    rng = np.random.default_rng(223)
    n_samples, n_features = int(rng.integers(10, 50)), int(rng.integers(20, 90))
    X = 1.0 / (np.arange(n_samples)[:, None] + np.arange(n_features) + 1.0)
    theta = np.zeros(n_features)
    theta[rng.choice(n_features, 5, replace=False)] = rng.standard_normal(5)
    y = X @ theta
    y += 10.0 ** -rng.integers(2, 9) * np.linalg.norm(y) * rng.standard_normal(n_samples)
    lam = 10.0 ** -rng.uniform(7, 8) * sbl_lambda_max(X, y)
    with pytest.warns(ConvergenceWarning, match="solved to a duality gap of .* lam only"):
        result = fit_sbl(X, y, lam, init="unit")
    assert not result.converged
    assert result.history[-1]["gap"] > 0.05 * lam
    certificate = result.certificate()
    assert max(certificate.largest_outside - 1.0, certificate.largest_error) > 1e-3
