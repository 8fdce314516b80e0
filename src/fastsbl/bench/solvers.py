"""What is compared: a name, the package it needs, and a call that takes (problem, lam, tol)."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastsbl
from fastsbl._base.types import FloatArray
from fastsbl.bench.data import Problem

__all__ = ["Answer", "Solver", "everything"]


def everything(problem: Problem) -> bool:
    """Take part in every problem."""
    return True


@dataclass(frozen=True)
class Answer:
    """What a solver found.

    Attributes
    ----------
    values : array of shape (n,)
        Coefficients of a lasso, prior variances of a sparse Bayesian fit.
    passes : float or None
        Reads of the matrix, where the solver counts them.
    """

    values: FloatArray
    passes: float | None = None


@dataclass(frozen=True)
class Solver:
    """A package, or a loop written by hand over one.

    Attributes
    ----------
    name : str
        As printed.
    solve : callable
        ``(problem, lam, tol) -> Answer``, from a cold start.
    module, package : str
        What must be importable, and what pip calls it.
    suits : callable
        Whether a problem is of a kind and size that it takes.
    slow : callable
        Whether it may take minutes there: it is then run once, in a process of its own, with a time limit.
    """

    name: str
    solve: Callable[[Problem, float, float], Answer]
    module: str
    package: str
    suits: Callable[[Problem], bool] = everything
    slow: Callable[[Problem], bool] = lambda problem: False

    @property
    def installed(self) -> bool:
        """Whether it can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Version of its package, empty if there is none."""
        if self.module == "fastsbl":
            return fastsbl.__version__
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""


def is_tall(problem: Problem) -> bool:
    """Whether there are more samples than features."""
    return problem.shape[0] > problem.shape[1]


def at_most(numbers: float) -> Callable[[Problem], bool]:
    """Problems whose matrix has no more entries than this."""

    def suits(problem: Problem) -> bool:
        return float(problem.shape[0]) * problem.shape[1] <= numbers

    return suits


def more_than(numbers: float) -> Callable[[Problem], bool]:
    """Problems whose matrix has more entries than this."""
    return lambda problem: not at_most(numbers)(problem)


def quiet(task: Callable[[], Any]) -> Any:
    """Run a task without its warnings: loose tolerances are tried on purpose, and judged from outside."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return task()
