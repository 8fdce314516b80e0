"""What screening rules reject, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl import screening
from fastsbl._base.types import Array, FloatArray
from fastsbl.dictionary import as_dictionary
from fastsbl.lasso import LassoSolution, weighted_lasso_path
from fastsbl.report.theme import FAINT, SERIES, drawing, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RULES", "STATIC_RULES", "ScreeningDisplay", "plot_screening", "rule_label", "screening_shares"]

_STATIC: dict[str, Callable[..., screening.Screening]] = {
    "sphere": screening.sphere_test,
    "dome": screening.dome_test,
    "two_hyperplanes": screening.two_hyperplane_test,
}
_DYNAMIC: dict[str, Callable[..., screening.Screening]] = {
    "gap_sphere": screening.gap_sphere_test,
    "gap_dome": screening.gap_dome_test,
    "holder": screening.holder_dome_test,
}
STATIC_RULES = tuple(_STATIC)
"""Rules that need only the target."""
RULES = (*_STATIC, *_DYNAMIC)
"""All six rules."""

_MARKERS = "sD^oPv"


class ScreeningDisplay:
    """Share of the features that screening rules prove to be zero, against the penalty.

    Parameters
    ----------
    ratios : array of shape (k,)
        Penalties over `fastsbl.lasso.lambda_max`.
    shares : mapping of str to array of shape (k,)
        Share rejected, from 0 to 1, by rule.
    zeros : array of shape (k,), optional
        Share that is zero in the answer: the most that a rule can reach.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure around it.
    lines_ : list of matplotlib.lines.Line2D
        One for each rule.

    Examples
    --------
    >>> from fastsbl.datasets import make_sparse_regression
    >>> from fastsbl.report import ScreeningDisplay
    >>> problem = make_sparse_regression(50, 200, n_nonzero=3, rng=0)
    >>> display = ScreeningDisplay.from_data(problem.dictionary, problem.y, [0.9, 0.5], rules=("sphere", "holder"))
    >>> sorted(display.shares)
    ['holder', 'sphere']
    """

    def __init__(self, ratios: ArrayLike, shares: Mapping[str, ArrayLike], *, zeros: ArrayLike | None = None) -> None:
        self.ratios = np.asarray(ratios, dtype=np.float64)
        self.shares = {name: np.asarray(values, dtype=np.float64) for name, values in shares.items()}
        self.zeros = None if zeros is None else np.asarray(zeros, dtype=np.float64)
        for name, values in {**self.shares, **({} if self.zeros is None else {"zeros": self.zeros})}.items():
            if self.ratios.ndim != 1 or values.shape != self.ratios.shape:
                raise ValueError(
                    f"shares must hold one number for each of the {self.ratios.size} ratios, "
                    f"got shape {values.shape} for {name}"
                )

    @classmethod
    def from_data(
        cls,
        dictionary: Any,
        y: Any,
        ratios: Sequence[float] | Array | None = None,
        *,
        weights: Any = None,
        positive: bool = False,
        rules: Sequence[str] = RULES,
        ax: Axes | None = None,
    ) -> ScreeningDisplay:
        """Screen one weighted lasso after the other, from the largest penalty down, and draw what was rejected.

        Rules that start from coefficients get the answer at the next larger penalty, and zeros at the largest.

        Parameters
        ----------
        dictionary : Dictionary or anything that `fastsbl.dictionary.as_dictionary` takes
            Phi, of shape (N, n).
        y : array of shape (N,) or (N, L)
            The target.
        ratios : sequence of float, optional
            Penalties over the largest useful one; by default 15 from 0.95 to 0.05.
        weights : array of shape (n,), optional
            Weights of the features; by default 1.
        positive : bool
            Whether coefficients are at least 0.
        rules : sequence of str
            Names of rules, as in ``screening=``.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        ScreeningDisplay
            Drawn.
        """
        grid = np.geomspace(0.95, 0.05, 15) if ratios is None else np.sort(np.asarray(ratios, dtype=np.float64))[::-1]
        phi = as_dictionary(dictionary)
        path = weighted_lasso_path(phi, y, grid, weights, positive=positive)
        shares = screening_shares(phi, y, path, weights, positive=positive, rules=rules)
        zeros = [1.0 - solution.support.size / phi.n_features for solution in path]
        return cls(grid, shares, zeros=zeros).plot(ax)

    def plot(self, ax: Axes | None = None) -> ScreeningDisplay:
        """Draw it, in ``ax`` or a new figure."""
        with drawing():
            ax = new_axes(ax, 6.6, 3.6)
            if self.zeros is not None:
                ax.plot(self.ratios, 100 * self.zeros, color=FAINT, alpha=0.5, linewidth=5, label="zero in the answer")
            self.lines_ = []
            for k, (name, values) in enumerate(self.shares.items()):
                style: dict[str, Any] = {
                    "color": SERIES[k % len(SERIES)],
                    "marker": _MARKERS[k % len(_MARKERS)],
                    "markersize": 4.5,
                }
                dashes = "--" if name.partition(":")[0] in _STATIC else "-"
                self.lines_ += ax.plot(self.ratios, 100 * values, dashes, label=rule_label(name), **style)
            ax.set(
                xscale="log", xlabel="penalty / largest useful penalty", ylabel="percent of features", ylim=(-3, 105)
            )
            ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if self._shows(tick)]
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _shows(self, tick: float) -> bool:
        return 0.9 * float(self.ratios.min()) <= tick <= 1.1 * float(self.ratios.max())


def rule_label(name: str) -> str:
    """What people call a rule.

    Examples
    --------
    >>> rule_label("holder"), rule_label("two_hyperplanes:paper")
    ('Hölder dome', 'two hyperplanes, paper')
    """
    kind, _, ball = name.partition(":")
    words = "Hölder dome" if kind == "holder" else kind.replace("_", " ")
    return f"{words}, {ball}" if ball else words


def screening_shares(
    dictionary: Any,
    y: Any,
    path: Sequence[LassoSolution],
    weights: Any = None,
    *,
    positive: bool = False,
    rules: Sequence[str] = RULES,
) -> dict[str, FloatArray]:
    """Share of the features that each rule rejects at the penalties of a path, before the problem is solved.

    Rules that start from coefficients get the answer before in the path, and at first zeros.
    """
    phi = as_dictionary(dictionary)
    before: list[Array] = [np.zeros_like(path[0].coef), *(solution.coef for solution in path[:-1])] if path else []
    shares = {}
    for name in rules:
        kind, _, ball = name.partition(":")
        if kind in _STATIC and ball in ("", "diameter", "full", "paper"):
            more: list[dict[str, Any]] = [{"ball": ball or "diameter"}] * len(path)
            test = _STATIC[kind]
        elif name in _DYNAMIC:
            more, test = [{"coef": coef} for coef in before], _DYNAMIC[name]
        else:
            raise ValueError(f"rules must be names among {', '.join(RULES)}, got {name!r}")
        shares[name] = np.array(
            [
                test(phi, y, solution.lam, weights, positive=positive, **options).share
                for solution, options in zip(path, more, strict=True)
            ]
        )
    return shares


def plot_screening(
    dictionary: Any,
    y: Any,
    ratios: Sequence[float] | Array | None = None,
    *,
    weights: Any = None,
    positive: bool = False,
    rules: Sequence[str] = RULES,
    ax: Axes | None = None,
) -> ScreeningDisplay:
    """Draw how much each screening rule rejects, against the penalty; see `ScreeningDisplay.from_data`."""
    return ScreeningDisplay.from_data(dictionary, y, ratios, weights=weights, positive=positive, rules=rules, ax=ax)
