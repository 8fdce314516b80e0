"""A slice of `benchmarks/screening_safety.py`: no rule rejects a feature whose constraint is tight."""

import importlib
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "helpers"))
reference = importlib.import_module("lasso_reference")
problems = importlib.import_module("screening_problems")


@pytest.fixture(scope="module")
def totals():
    found = defaultdict(problems.Tally)
    for seed in range(2000):
        problems.examine(seed, found)
    return found


@pytest.mark.parametrize("rule", [*problems.STATIC, *problems.DYNAMIC])
def test_no_wrong_rejection_on_hard_random_problems(totals, rule):
    mine = {place: tally for (name, place), tally in totals.items() if name == rule}
    assert mine
    for place, tally in mine.items():
        assert tally.problems == 2000
        assert tally.rejected > 0.1 * tally.columns, f"{rule} at {place} hardly rejects anything"
        assert tally.wrong == 0, f"{rule} at {place} rejected active features, seeds {tally.seeds}"
        assert tally.errors == 0, f"{rule} at {place} raised on valid input, seeds {tally.seeds}"


def test_the_judge_sees_wrong_rejections():
    """The judge itself: rejecting active features is found wrong, rejecting inactive ones is not."""
    wrong = right = 0
    for seed in range(60):
        problem = problems.draw(np.random.default_rng(seed))
        solution = reference.solve(problem.X, problem.y, problem.limits, positive=problem.positive)
        if solution.gap > 1e-14:
            continue
        norms = np.linalg.norm(problem.X.astype(float), axis=0)
        size = np.abs(solution.coef) * norms
        active = size > 1e-3 * max(size.max(), 1e-300)
        products = problem.X.astype(float).T @ solution.dual
        slack = problem.limits - (products if problem.positive else np.abs(products))
        zero = slack > 1e-3 * np.linalg.norm(problem.y) * norms
        exact = reference.decide(
            problem.X, problem.y, problem.limits, np.flatnonzero(active | zero),
            start=solution.coef, positive=problem.positive,
        )  # fmt: skip
        near_copy = "copies" in problem.kind
        for i, value in zip(np.flatnonzero(active | zero), exact, strict=True):
            if zero[i]:
                assert value > 1e-6
                right += 1
            elif not near_copy:
                assert abs(value) < 1e-30
                wrong += 1
        assert problems.judge(problem, solution, zero).size == 0
        if active.any() and not near_copy:
            assert problems.judge(problem, solution, active).size == active.sum()
    assert min(wrong, right) > 50


@pytest.mark.parametrize("positive", [False, True])
def test_the_reference_reaches_its_gap(positive):
    reached = 0
    for seed in range(200):
        problem = problems.draw(np.random.default_rng(seed))
        if problem.positive == positive:
            solution = reference.solve(problem.X, problem.y, problem.limits, positive=positive)
            reached += solution.gap < 1e-14
            again = problems.reference.objective(problem.X.astype(float), problem.y, problem.limits, solution.coef)
            assert np.isfinite(again)
    assert reached > 30
