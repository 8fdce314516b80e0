"""Coefficients along a path, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl.lasso import LassoSolution
from fastsbl.report.draw import shorten
from fastsbl.report.theme import FAINT, INK, SERIES, drawing, new_axes, tidy_axes
from fastsbl.sbl import SBLResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PathDisplay", "plot_path"]


class PathDisplay:
    """Coefficients along a path of penalties or noise variances.

    Parameters
    ----------
    lams : array of shape (k,)
        Penalty or noise variance of each fit, in any order.
    coefs : array of shape (k, n) or (k, n, L)
        Coefficients of each fit. For several targets the norm over the targets is drawn, for complex ones the modulus.
    chosen : float, optional
        One of the noise variances, to be marked.
    names : sequence of str, optional
        Names of the features.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure around it.
    lines_ : list of matplotlib.lines.Line2D
        One for each feature that is in the model somewhere on the path, the largest at the end of it first.

    Examples
    --------
    >>> from fastsbl.datasets import make_sparse_regression
    >>> from fastsbl.report import PathDisplay
    >>> from fastsbl.sbl import sbl_path
    >>> problem = make_sparse_regression(50, 200, n_nonzero=3, rng=0)
    >>> path = sbl_path(problem.dictionary, problem.y, [0.5, 0.1], relative_to="sbl_lambda_max")
    >>> display = PathDisplay.from_results(path)
    >>> display.coefs.shape
    (2, 200)
    """

    def __init__(
        self, lams: ArrayLike, coefs: ArrayLike, *, chosen: float | None = None, names: Sequence[str] | None = None
    ) -> None:
        values, table = np.asarray(lams, dtype=np.float64), np.asarray(coefs)
        if values.ndim != 1 or values.size == 0 or table.ndim not in (2, 3) or len(table) != values.size:
            raise ValueError(
                "coefs must hold the coefficients of each fit, shape (k, n) or (k, n, L) for k values of lams; "
                f"got shapes {table.shape} and {values.shape}"
            )
        order = np.argsort(-values, kind="stable")
        self.lams = values[order]
        self.coefs = table[order]
        self.chosen = chosen
        self.names = _checked_names(names, table.shape[1])

    @classmethod
    def from_results(
        cls, path: Sequence[SBLResult | LassoSolution], *, names: Sequence[str] | None = None, ax: Axes | None = None
    ) -> PathDisplay:
        """Draw the fits of `fastsbl.sbl.sbl_path` or the solutions of `fastsbl.lasso.weighted_lasso_path`.

        Parameters
        ----------
        path : sequence of SBLResult or LassoSolution
            At least one.
        names : sequence of str, optional
            Names of the features.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        PathDisplay
            Drawn.
        """
        fits = list(path)
        if not fits or not all(hasattr(fit, "lam") and hasattr(fit, "coef") for fit in fits):
            raise ValueError("path must be a sequence of at least one result of sbl_path or weighted_lasso_path")
        return cls([fit.lam for fit in fits], np.stack([fit.coef for fit in fits]), names=names).plot(ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> PathDisplay:
        """Draw the path of a fitted `fastsbl.estimators.SBLRegressorCV`, with the noise variance it chose.

        Parameters
        ----------
        estimator : SBLRegressorCV
            Fitted.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        PathDisplay
            Drawn.
        """
        if not hasattr(estimator, "coefs_path_"):
            raise ValueError(f"estimator must be a fitted SBLRegressorCV, got {type(estimator).__name__}")
        coefs = np.asarray(estimator.coefs_path_)
        if coefs.ndim == 3:
            coefs = coefs.swapaxes(1, 2)  # targets last, as in results
        names = getattr(estimator, "feature_names_in_", None)
        return cls(estimator.noise_variances_, coefs, chosen=float(estimator.noise_variance_), names=names).plot(ax)

    def plot(self, ax: Axes | None = None, *, labels: int = 8) -> PathDisplay:
        """Draw it, in ``ax`` or a new figure; the ``labels`` features that end largest are named."""
        heights = self.coefs
        if heights.ndim == 3:
            heights = np.linalg.norm(heights, axis=2)
        elif np.iscomplexobj(heights):
            heights = np.abs(heights)
        used = np.flatnonzero(np.any(heights != 0, axis=0))
        used = used[np.argsort(-np.abs(heights[-1, used]), kind="stable")]
        with drawing():
            ax = new_axes(ax)
            ax.axhline(0.0, color=FAINT, linewidth=0.8)
            self.lines_ = []
            for rank, feature in enumerate(used.tolist()):
                named = rank < labels
                style: dict[str, Any] = (
                    {"color": SERIES[rank % len(SERIES)], "linestyle": "-" if rank < len(SERIES) else "--", "zorder": 3}
                    if named
                    else {"color": FAINT, "linewidth": 0.8, "alpha": 0.7}
                )
                label = self._name(feature) if named else None
                self.lines_ += ax.plot(self.lams, heights[:, feature], label=label, **style)
            if self.chosen is not None:
                ax.axvline(self.chosen, color=INK, linestyle=":", linewidth=1.2, label="chosen")
            ax.set(xscale="log", xlabel="lambda, from large to small", ylabel="coefficient")
            if np.ptp(self.lams) > 0:
                ax.set_xlim(self.lams[0], self.lams[-1])
            tidy_axes(ax)
            if used.size > labels:
                ax.plot([], [], color=FAINT, linewidth=0.8, label=f"{used.size - labels} more")
            if used.size or self.chosen is not None:
                ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title="feature")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _name(self, feature: int) -> str:
        return str(feature) if self.names is None else shorten(self.names[feature], 24)


def _checked_names(names: Sequence[str] | None, count: int) -> list[str] | None:
    if names is None:
        return None
    if len(names) != count:
        raise ValueError(f"names must be {count}, one for each feature, got {len(names)}")
    return [str(name) for name in names]


def plot_path(path: Any, *, names: Sequence[str] | None = None, ax: Axes | None = None) -> PathDisplay:
    """Draw coefficients against lambda, from the results of a path or a fitted `fastsbl.estimators.SBLRegressorCV`.

    See `PathDisplay.from_results` and `PathDisplay.from_estimator`.
    """
    if hasattr(path, "fit"):
        return PathDisplay.from_estimator(path, ax=ax)
    return PathDisplay.from_results(path, names=names, ax=ax)
