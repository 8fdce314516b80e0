"""The regions and their maxima against a convex solver, the paper's formulas and known counterexamples."""

import importlib
import itertools
import sys
from collections import Counter
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest

from fastsbl import screening
from fastsbl.dictionary import as_dictionary
from fastsbl.screening import _kernels
from fastsbl.screening.problem import DualProblem
from fastsbl.screening.rules import find_rules

sys.path.append(str(Path(__file__).parents[1] / "helpers"))
reference = importlib.import_module("lasso_reference")

EXACT = {"slack": 0.0, "least_d": 1e-10}


# -- readable twins of the compiled maxima: the case form in which the paper states them ----------------
def dome_cases(t1, t, R, psi):
    """M_1 of the paper's dome lemma."""
    if t1 < -psi * t:
        return R * t
    return -psi * R * t1 + R * np.sqrt(max(t * t - t1 * t1, 0)) * np.sqrt(1 - psi * psi)


def which_case(t1, t2, t, psi1, psi2, tau):
    """Which of the four cases of the two-hyperplane lemma applies."""
    if t1 < -psi1 * t and t2 < -psi2 * t:
        return "a"
    if t1 >= -psi1 * t and (t2 - tau * t1) / np.sqrt(t * t - t1 * t1) < (tau * psi1 - psi2) / np.sqrt(1 - psi1**2):
        return "b"
    if t2 >= -psi2 * t and (t1 - tau * t2) / np.sqrt(t * t - t2 * t2) < (tau * psi2 - psi1) / np.sqrt(1 - psi2**2):
        return "c"
    return "else"


def two_plane_cases(t1, t2, t, R, psi1, psi2, tau, factor=None):
    """M_2 of the two-hyperplane lemma; ``factor`` is R / (1 - tau^2), printed as R / (1 - R^2)."""
    case = which_case(t1, t2, t, psi1, psi2, tau)
    if case == "a":
        return R * t
    if case == "b":
        return dome_cases(t1, t, R, psi1)
    if case == "c":
        return dome_cases(t2, t, R, psi2)

    def q(x, y, z):
        return np.sqrt(max((1 - tau * tau) * z * z + 2 * tau * x * y - x * x - y * y, 0))

    factor = R / (1 - tau * tau) if factor is None else factor
    along = (psi1 - tau * psi2) * t1 + (psi2 - tau * psi1) * t2
    return factor * (q(psi1, psi2, 1) * q(t1, t2, t) - along)


def draw_planes(rng, N):
    """Two unit normals and depths that leave a region with an interior."""
    while True:
        n1, n2 = rng.standard_normal((2, N))
        n1, n2 = n1 / np.linalg.norm(n1), n2 / np.linalg.norm(n2)
        if rng.random() < 0.5:
            n2 = 0.9 * rng.choice([-1, 1]) * n1 + 0.3 * n2
            n2 /= np.linalg.norm(n2)
        inside = rng.standard_normal(N)
        inside *= 0.9 * rng.random() / np.linalg.norm(inside)
        psi1, psi2 = (-n @ inside - 0.2 * rng.random() for n in (n1, n2))
        if max(abs(psi1), abs(psi2)) < 0.95 and abs(n1 @ n2) < 0.98:
            return n1, n2, psi1, psi2


def maximum(n1, n2, psi1, psi2, phi, R):
    return _kernels.two_plane_maximum(n1 @ phi, n2 @ phi, np.linalg.norm(phi), R, psi1, psi2, n1 @ n2, *EXACT.values())


def test_maxima_agree_with_a_convex_solver_in_every_case():
    cp = pytest.importorskip("cvxpy", reason="cvxpy is the independent maximiser")
    N = 4
    x, phi_, n1_, n2_ = cp.Variable(N), cp.Parameter(N), cp.Parameter(N), cp.Parameter(N)
    h1_, h2_ = cp.Parameter(), cp.Parameter()
    ball = cp.norm(x) <= 1
    two = cp.Problem(cp.Maximize(phi_ @ x), [ball, n1_ @ x <= h1_, n2_ @ x <= h2_])
    one = cp.Problem(cp.Maximize(phi_ @ x), [ball, n1_ @ x <= h1_])
    options = {"solver": "CLARABEL", "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    rng = np.random.default_rng(20)
    seen = Counter()
    for _ in range(400):
        n1, n2, psi1, psi2 = draw_planes(rng, N)
        phi = rng.standard_normal(N) + rng.choice([0, 2]) * (n1 + rng.standard_normal() * n2)
        t = np.linalg.norm(phi)
        case = which_case(n1 @ phi, n2 @ phi, t, psi1, psi2, n1 @ n2)
        if seen[case] == 25:
            continue
        seen[case] += 1
        phi_.value, n1_.value, n2_.value, h1_.value, h2_.value = phi, n1, n2, -psi1, -psi2
        R = rng.uniform(0.1, 3.0)
        assert maximum(n1, n2, psi1, psi2, phi, R) == pytest.approx(R * two.solve(**options), abs=1e-8 * R * t)
        found = _kernels.dome_maximum(n1 @ phi, t, R, psi1, 0.0)
        assert found == pytest.approx(R * one.solve(**options), abs=1e-8 * R * t)
    assert seen == {"a": 25, "b": 25, "c": 25, "else": 25}


def test_maxima_agree_with_the_case_form():
    rng = np.random.default_rng(21)
    seen = Counter()
    for _ in range(20_000):
        N = int(rng.integers(2, 8))
        n1, n2, psi1, psi2 = draw_planes(rng, N)
        phi = rng.standard_normal(N) + rng.choice([0, 3]) * (n1 + rng.standard_normal() * n2)
        R, t = rng.uniform(0.1, 3.0), np.linalg.norm(phi)
        t1, t2, tau = n1 @ phi, n2 @ phi, n1 @ n2
        seen[which_case(t1, t2, t, psi1, psi2, tau)] += 1
        # the case form takes roots of differences that may vanish, and so has half the digits at worst
        scale = 3e-8 * R * t / (1 - tau * tau)
        twin = two_plane_cases(t1, t2, t, R, psi1, psi2, tau)
        assert maximum(n1, n2, psi1, psi2, phi, R) == pytest.approx(twin, abs=scale)
        assert _kernels.dome_maximum(t1, t, R, psi1, 0.0) == pytest.approx(dome_cases(t1, t, R, psi1), abs=scale)
    assert min(seen.values()) > 1000
    assert len(seen) == 4


def test_the_plane_that_misses_the_ball_changes_nothing():
    assert _kernels.dome_maximum(0.3, 2.0, 1.5, -1.0, 0.0) == pytest.approx(3.0)
    assert _kernels.dome_maximum(0.3, 2.0, 1.5, -7.0, 0.0) == pytest.approx(3.0)
    both = _kernels.two_plane_maximum(0.3, -0.2, 2.0, 1.5, -1.2, -3.0, 0.4, 0.0, 1e-10)
    assert both == pytest.approx(3.0)
    one = _kernels.two_plane_maximum(1.3, -0.2, 2.0, 1.5, 0.3, -3.0, 0.4, 0.0, 1e-10)
    assert one == pytest.approx(_kernels.dome_maximum(1.3, 2.0, 1.5, 0.3, 0.0))


@pytest.mark.parametrize("tau", [1.0, -1.0])
def test_parallel_planes(tau):
    found = _kernels.two_plane_maximum(0.7, 0.7 * tau, 1.0, 2.0, 0.2, -0.4, tau, 0.0, 1e-10)
    domes = [
        _kernels.dome_maximum(0.7, 1.0, 2.0, 0.2, 0.0),
        _kernels.dome_maximum(0.7 * tau, 1.0, 2.0, -0.4, 0.0),
    ]
    assert found == pytest.approx(min(domes))


def _exact_two_planes(n1, n2, psi1, psi2, phi):
    """M_2 for R = 1 from the vectors themselves, in 60-digit arithmetic."""
    with localcontext() as context:
        context.prec = 60

        def exact(v):
            return [Decimal(float(z)) for z in v]

        def dot(a, b):
            return sum((p * q for p, q in zip(a, b, strict=True)), Decimal(0))

        a, b, v = exact(n1), exact(n2), exact(phi)
        length1, length2 = dot(a, a).sqrt(), dot(b, b).sqrt()
        t1, t2, tau = dot(a, v) / length1, dot(b, v) / length2, dot(a, b) / length1 / length2
        tt, p1, p2 = dot(v, v), Decimal(float(psi1)), Decimal(float(psi2))

        def bound(mu1, mu2):
            squared = tt - 2 * (mu1 * t1 + mu2 * t2) + mu1 * mu1 + mu2 * mu2 + 2 * tau * mu1 * mu2
            return max(squared, Decimal(0)).sqrt() - mu1 * p1 - mu2 * p2

        def single(s, p):
            return max(Decimal(0), s + p * max(tt - s * s, Decimal(0)).sqrt() / (1 - p * p).sqrt())

        values = [bound(single(t1, p1), Decimal(0)), bound(Decimal(0), single(t2, p2))]
        d = 1 - tau * tau
        k = d - p1 * p1 - p2 * p2 + 2 * tau * p1 * p2
        if d > 0 and k > 0:
            a1, a2 = (t1 - tau * t2) / d, (t2 - tau * t1) / d
            root = (max(tt - a1 * t1 - a2 * t2, Decimal(0)) * d / k).sqrt()
            mu1 = max(Decimal(0), a1 + root * (p1 - tau * p2) / d)
            mu2 = max(Decimal(0), a2 + root * (p2 - tau * p1) / d)
            values.append(bound(mu1, mu2))
        return min(values)


def test_nearly_parallel_planes_are_never_below_the_true_maximum():
    """The multipliers grow as the planes close up; rounding must not bring the bound below the truth."""
    rng = np.random.default_rng(22)
    N, joint = 5, 0
    slack = (64 + N) * 2.22e-16
    for _ in range(12_000):
        n1, across = rng.standard_normal((2, N))
        n1 /= np.linalg.norm(n1)
        across -= n1 * (across @ n1)
        across /= np.linalg.norm(across)
        angle = 10 ** rng.uniform(-5.2, -3)
        n2 = -np.cos(angle) * n1 + np.sin(angle) * across
        n2 /= np.linalg.norm(n2)
        inside = n1 * rng.uniform(-1, 1) + across * rng.uniform(-1, 1)
        inside /= max(1.0, 1.001 * np.linalg.norm(inside))
        psi1, psi2 = -n1 @ inside, -n2 @ inside
        phi = rng.standard_normal(N)
        t = np.linalg.norm(phi)
        margin = 2 * slack  # what psi and the value are moved by when the centre is a radius away
        planes = (psi1 - margin, psi2 - margin)
        found = _kernels.two_plane_maximum(n1 @ phi, n2 @ phi, t, 1.0, *planes, n1 @ n2, slack, 1e-10)
        single = min(
            _kernels.dome_maximum(n @ phi, t, 1.0, psi, slack) for n, psi in zip((n1, n2), planes, strict=True)
        )
        if found < single:
            joint += 1
            assert Decimal(float(found)) + Decimal(margin * t) >= _exact_two_planes(n1, n2, psi1, psi2, phi)
    assert joint > 1000


# -- regions ------------------------------------------------------------------------------------------
def make(seed, N=20, n=60, norms=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n)) * np.exp(norms * rng.uniform(-2, 2, n))
    y = X[:, :4] @ rng.standard_normal(4) + 0.3 * rng.standard_normal(N)
    weights = np.exp(rng.uniform(-1, 1, n))
    top = (np.abs(X.T @ y) / weights).max()
    return X, y, weights, top


def reach(region, X):
    """Per feature, the largest |phi' eta| over the region."""
    return np.maximum(region.maximum(X), region.maximum(-X))


def test_hoelder_dome_in_gap_dome_in_gap_sphere():
    tighter = Counter()
    for seed, ratio, sweeps in itertools.product(range(15), (0.1, 0.4, 0.8), (0, 1, 3, 10)):
        X, y, weights, top = make(seed)
        lam = ratio * top
        coef = reference.descend(X, y, lam * weights, n_sweeps=sweeps)
        found = [
            reach(test(X, y, lam, weights, coef=coef).region, X)
            for test in (screening.holder_dome_test, screening.gap_dome_test, screening.gap_sphere_test)
        ]
        scale = 1e-7 * np.linalg.norm(y) * np.linalg.norm(X, axis=0)
        assert (found[0] <= found[1] + scale).all()
        assert (found[1] <= found[2] + scale).all()
        tighter["gap dome"] += (found[0] < 0.999 * found[1]).sum()
        tighter["gap sphere"] += (found[1] < 0.999 * found[2]).sum()
    assert min(tighter["gap dome"], tighter["gap sphere"]) > 1000


@pytest.mark.parametrize("positive", [False, True])
def test_diameter_ball_in_full_ball_in_paper_ball_and_planes_only_cut(positive):
    for seed, ratio in itertools.product(range(15), (0.1, 0.5, 0.9)):
        X, y, weights, top = make(seed)
        lam = ratio * top
        norms = np.linalg.norm(X, axis=0)
        reaches = {}
        for name in ("sphere", "dome", "two_hyperplanes"):
            for ball in ("diameter", "full", "paper"):
                problem = DualProblem(as_dictionary(X), y, lam * weights, positive=positive)
                region = find_rules(f"{name}:{ball}")[0].test(problem).region
                reaches[name, ball] = region.maximum(X)
        scale = 1e-9 * np.linalg.norm(y) * norms
        for name in ("sphere", "dome"):
            assert (reaches[name, "diameter"] <= reaches[name, "full"] + scale).all() or name != "sphere"
            assert (reaches["sphere", "full"] <= reaches["sphere", "paper"] + scale).all()
        for ball in ("diameter", "full", "paper"):
            assert (reaches["dome", ball] <= reaches["sphere", ball] + scale).all()
            assert (reaches["two_hyperplanes", ball] <= reaches["dome", ball] + scale).all()


def test_the_second_plane_lowers_something():
    lowered = 0
    for seed in range(10):
        X, y, weights, top = make(seed, norms=0.0)
        one = screening.dome_test(X, y, 0.6 * top, weights).region
        two = screening.two_hyperplane_test(X, y, 0.6 * top, weights).region
        lowered += (reach(two, X) < 0.99 * reach(one, X)).sum()
    assert lowered > 50


def test_region_maximum_agrees_with_samples():
    rng = np.random.default_rng(3)
    X, y, weights, top = make(1, N=3, n=10)
    for test in (screening.sphere_test, screening.dome_test, screening.two_hyperplane_test):
        region = test(X, y, 0.5 * top, weights).region
        points = rng.standard_normal((200_000, 3))
        points *= (rng.random((len(points), 1)) ** (1 / 3)) / np.linalg.norm(points, axis=1, keepdims=True)
        points = region.center + region.radius * points
        for cut in region.half_spaces:
            points = points[points @ cut.normal <= cut.offset]
        best = (points @ X).max(axis=0)
        found = region.maximum(X)
        assert (best <= found * (1 + 1e-12) + 1e-12).all()
        np.testing.assert_allclose(best, found, atol=0.1 * region.radius * np.linalg.norm(X, axis=0).max())


def test_a_plane_that_touches_the_ball_leaves_one_point():
    plane = screening.HalfSpace(np.array([1.0, 0.0]), -1.0)
    region = screening.Region(np.zeros(2), 1.0, (plane,))
    np.testing.assert_allclose(
        region.maximum(np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])), [-1.0, 1.0, 0.0], atol=1e-6
    )


# -- known counterexamples ------------------------------------------------------------------------------
def test_gap_ball_needs_the_factor_two():
    """With the radius sqrt(gap), as some research codes have it, an active feature is discarded."""
    X, y = np.diag([1.0, 0.181]), np.array([0.312, 0.95])
    lam = np.abs(X.T @ y).max() / 2
    solution = reference.solve(X, y, np.full(2, lam))
    assert solution.coef[1] > 0.1
    dual = y / 2  # the best feasible multiple of y; gap at theta = 0:
    gap = 0.5 * y @ y - (0.5 * y @ y - 0.5 * (y - dual) @ (y - dual))
    reach_of_second = X[:, 1] @ dual + np.sqrt(gap) * 0.181
    assert reach_of_second < lam  # so the wrong radius rejects it ...
    assert X[:, 1] @ dual + np.sqrt(2 * gap) * 0.181 > lam  # ... and the right one keeps it
    for rule in screening.rule_names():
        for coef in (np.zeros(2), 0.5 * solution.coef, solution.coef):
            for part in find_rules(rule):
                problem = DualProblem(as_dictionary(X), y, np.full(2, lam))
                assert not part.test(problem, problem.point(coef)).rejected[1]


def printed_test(X, y, lam, weights, *, planes, absolute=True, factor="tau"):
    """The dome (planes=1) or two-hyperplane test as printed: no rounding margin.

    ``absolute=False`` takes lambda_max without the absolute value; ``factor="radius"`` has r / (1 - r^2)
    in M_2. Both are as in the paper's text.
    """
    norms, rho, w = np.linalg.norm(X, axis=0), X.T @ y, lam * weights
    lam_max = np.abs(rho).max() if absolute else rho.max()
    r = abs(1 - lam * weights.min() / lam_max) * np.linalg.norm(y)
    if planes == 0:
        return np.abs(rho) < w - r * norms
    first = int(np.argmax((np.abs(rho) - w) / norms))
    n1 = np.sign(rho[first]) * X[:, first] / norms[first]
    h1 = w[first] / norms[first]
    psi1 = (n1 @ y - h1) / r
    t1 = n1 @ X
    t = rho - (n1 @ y - h1) * t1
    order = (np.abs(t) - w) / norms
    order[first] = -np.inf
    second = int(np.argmax(order))
    n2 = np.sign(rho[second]) * X[:, second] / norms[second]
    psi2 = (n2 @ y - w[second] / norms[second]) / r
    t2, tau = n2 @ X, n1 @ n2
    rejected = np.zeros(norms.size, dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        for i in range(norms.size):
            if planes == 1:
                up, down = (dome_cases(s * t1[i], norms[i], r, psi1) for s in (1, -1))
            else:
                wrong = r / (1 - r * r) if factor == "radius" else None
                up, down = (two_plane_cases(s * t1[i], s * t2[i], norms[i], r, psi1, psi2, tau, wrong) for s in (1, -1))
            rejected[i] = rho[i] + up < w[i] and -rho[i] + down < w[i]
    return rejected


def draw_unit(seed, ratio):
    """Unit columns and a unit target, as the paper normalises them."""
    rng = np.random.default_rng(seed)
    N, n = 10, 30
    X = rng.standard_normal((N, n)) + 1.0
    X /= np.linalg.norm(X, axis=0)
    y = X[:, :5] @ rng.standard_normal(5) + 0.3 * rng.standard_normal(N)
    y /= np.linalg.norm(y)
    if ratio is None:  # most columns point away from y; the signs of columns change nothing else
        rho = np.abs(X.T @ y)
        lam = float(np.quantile(rho, 0.4))
        return X * np.where(rho > 1.02 * lam, -1, 1) * np.sign(X.T @ y), y, lam, np.ones(n)
    weights = rng.uniform(0.7, 1.0, n)
    return X, y, ratio * (np.abs(X.T @ y) / weights).max(), weights


PRINTED = {
    # what is printed: (arguments of `printed_test`, lam as a share of lambda_max)
    "r / (1 - r^2) instead of r / (1 - tau^2)": ({"planes": 2, "factor": "radius"}, 0.6),
    "lambda_max without the absolute value": ({"planes": 0, "absolute": False}, None),
    "no rounding margin, dome": ({"planes": 1}, 0.6),
    "no rounding margin, two hyperplanes": ({"planes": 2}, 0.6),
}


@pytest.mark.parametrize("what", PRINTED)
def test_the_printed_formulas_reject_active_features_and_ours_do_not(what):
    """Each slip of the paper's text discards features that carry weight, on the 60 problems of seeds 0..59.

    Active means a coefficient above 1e-3 of the largest. Without a margin it is the plane's own feature that
    goes: its slack is exactly 0 and rounding decides.
    """
    options, ratio = PRINTED[what]
    wrong = 0
    for seed in range(60):
        X, y, lam, weights = draw_unit(seed, ratio)
        solution = reference.solve(X, y, lam * weights)
        assert solution.gap < 1e-14
        active = np.abs(solution.coef) > 1e-3 * np.abs(solution.coef).max()
        wrong += bool((printed_test(X, y, lam, weights, **options) & active).any())
        for rule in screening.rule_names():
            for part in find_rules(rule):
                problem = DualProblem(as_dictionary(X), y, lam * weights)
                assert not (part.test(problem, problem.point(solution.coef)).rejected & active).any()
    assert wrong >= 5, f"only {wrong} of 60 problems"


def test_the_printed_factor_is_below_the_true_maximum():
    rng = np.random.default_rng(23)
    below = otherwise = 0
    while otherwise < 200:
        n1, n2, psi1, psi2 = draw_planes(rng, 4)
        phi, R = rng.standard_normal(4), rng.uniform(0.1, 0.9)
        t1, t2, t, tau = n1 @ phi, n2 @ phi, np.linalg.norm(phi), n1 @ n2
        if which_case(t1, t2, t, psi1, psi2, tau) != "else":
            continue
        otherwise += 1
        true = maximum(n1, n2, psi1, psi2, phi, R)
        printed = two_plane_cases(t1, t2, t, R, psi1, psi2, tau, factor=R / (1 - R * R))
        assert printed != pytest.approx(true, rel=1e-6)
        below += printed < true * (1 - 1e-6)
    assert below > 30
