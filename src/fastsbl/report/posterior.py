"""The features of a model and how sure their coefficients are, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastsbl.report.draw import shorten
from fastsbl.report.theme import FAINT, SERIES, TRUTH, drawing, new_axes
from fastsbl.sbl import SBLResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PosteriorDisplay", "plot_posterior"]


class PosteriorDisplay:
    """Coefficients of the features in a model, with their standard deviations.

    Parameters
    ----------
    support : int array of shape (s,)
        Features in the model.
    mean, std : array of shape (s,)
        Posterior mean and standard deviation of their coefficients.
    names : sequence of str, optional
        Names of all features, or of those in the model.
    truth : array of shape (n,), optional
        True coefficients of all features; those that are not zero are marked, in the model or not.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Where it was drawn.
    figure_ : matplotlib.figure.Figure
        The figure around it.
    errorbar_ : matplotlib.container.ErrorbarContainer
        Means and intervals.

    Examples
    --------
    >>> from fastsbl import fit_sbl
    >>> from fastsbl.datasets import make_sparse_regression
    >>> from fastsbl.report import PosteriorDisplay
    >>> problem = make_sparse_regression(50, 200, n_nonzero=3, rng=0)
    >>> display = PosteriorDisplay.from_result(fit_sbl(problem.dictionary, problem.y), truth=problem.coef)
    >>> display.mean.shape == display.std.shape == display.support.shape
    True
    """

    def __init__(
        self,
        support: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike,
        *,
        names: Sequence[str] | None = None,
        truth: ArrayLike | None = None,
    ) -> None:
        self.support = np.asarray(support, dtype=np.intp)
        self.mean = np.asarray(mean)
        self.std = np.asarray(std, dtype=np.float64)
        if self.support.ndim != 1 or not self.mean.shape == self.std.shape == self.support.shape:
            raise ValueError(
                "support, mean and std must hold one number for each feature in the model, got shapes "
                f"{self.support.shape}, {self.mean.shape} and {self.std.shape}"
            )
        if np.iscomplexobj(self.mean):
            raise ValueError("mean must be real: an interval on a line cannot show complex coefficients")
        self.truth = None if truth is None else np.asarray(truth, dtype=np.float64)
        if self.truth is not None and (self.truth.ndim != 1 or self.truth.size <= self.support.max(initial=-1)):
            raise ValueError(f"truth must hold the coefficients of all features, got shape {self.truth.shape}")
        if names is not None and len(names) == self.support.size:
            self.names: dict[int, str] | None = dict(zip(self.support.tolist(), map(str, names), strict=True))
        elif names is not None and len(names) > self.support.max(initial=-1):
            self.names = dict(enumerate(map(str, names)))
        elif names is not None:
            raise ValueError(f"names must be of all features, or of the {self.support.size} in the model")
        else:
            self.names = None

    @classmethod
    def from_result(
        cls,
        result: SBLResult,
        *,
        names: Sequence[str] | None = None,
        truth: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> PosteriorDisplay:
        """Draw the posterior of a fit with one real target.

        Parameters
        ----------
        result : SBLResult
            What `fastsbl.sbl.fit_sbl` returned.
        names : sequence of str, optional
            Names of the features.
        truth : array of shape (n,), optional
            True coefficients.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        PosteriorDisplay
            Drawn.
        """
        posterior = result.posterior()
        if posterior.mean.ndim != 1:
            raise ValueError(f"result must be of one target, got {posterior.mean.shape[1]}")
        return cls(posterior.support, posterior.mean, posterior.std, names=names, truth=truth).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, truth: ArrayLike | None = None, ax: Axes | None = None
    ) -> PosteriorDisplay:
        """Draw the coefficients of a fitted regressor of `fastsbl.estimators` with one target.

        Parameters
        ----------
        estimator : SBLRegressor or SBLRegressorCV
            Fitted. The names of the features are those it has seen.
        truth : array of shape (n,), optional
            True coefficients.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        PosteriorDisplay
            Drawn.
        """
        if not (hasattr(estimator, "sigma_") and hasattr(estimator, "support_")):
            raise ValueError(
                f"estimator must be a fitted SBLRegressor or SBLRegressorCV, got {type(estimator).__name__}"
            )
        coef = np.asarray(estimator.coef_)
        if coef.ndim != 1:
            raise ValueError(f"estimator must have one target, got {coef.shape[0]}")
        std = np.sqrt(np.diag(estimator.sigma_))
        names = getattr(estimator, "feature_names_in_", None)
        return cls(estimator.support_, coef[estimator.support_], std, names=names, truth=truth).plot(ax)

    def plot(self, ax: Axes | None = None, *, most: int = 30) -> PosteriorDisplay:
        """Draw it, in ``ax`` or a new figure: the ``most`` features that are furthest from zero, largest at the top.

        Points are means, bars two standard deviations to each side.
        """
        missed = np.zeros(0, dtype=np.intp)
        if self.truth is not None:
            missed = np.setdiff1d(np.flatnonzero(self.truth), self.support)
        order = np.argsort(-np.abs(self.mean), kind="stable")[:most]
        rows = [*self.support[order].tolist(), *missed[: max(0, most - order.size)].tolist()]
        left_out = self.support.size + missed.size - len(rows)
        place = np.arange(len(rows))
        with drawing():
            ax = new_axes(ax, 5.8, max(1.8, 1.2 + 0.24 * len(rows)))
            ax.axvline(0.0, color=FAINT, linewidth=0.8)
            self.errorbar_ = ax.errorbar(
                self.mean[order], place[: order.size], xerr=2 * self.std[order], fmt="o", color=SERIES[0],
                markersize=4.5, capsize=2.5, linewidth=1.4, label="mean, 2 standard deviations",
            )  # fmt: skip
            if self.truth is not None:
                ax.plot(
                    self.truth[rows], place, "o", color=TRUTH, fillstyle="none", markersize=8.5, mew=1.4, label="truth"
                )
            more = f"feature ({left_out} more are not shown)" if left_out else "feature"
            ax.set(xlabel="coefficient", ylabel=more, ylim=(len(rows) - 0.4, -0.6))
            ax.set_yticks(place, [self._name(feature) for feature in rows])
            ax.grid(visible=False, axis="y")
            ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _name(self, feature: int) -> str:
        known = None if self.names is None else self.names.get(feature)
        return str(feature) if known is None else shorten(known, 32)


def plot_posterior(
    fitted: Any, *, names: Sequence[str] | None = None, truth: ArrayLike | None = None, ax: Axes | None = None
) -> PosteriorDisplay:
    """Draw the coefficients in a model with their standard deviations, from a result or a fitted regressor.

    See `PosteriorDisplay.from_result` and `PosteriorDisplay.from_estimator`.
    """
    if hasattr(fitted, "fit"):
        return PosteriorDisplay.from_estimator(fitted, truth=truth, ax=ax)
    return PosteriorDisplay.from_result(fitted, names=names, truth=truth, ax=ax)
