"""Draw a sparse Bayesian fit as what it is: one weighted lasso after another, each with new prices.

Writes ``outer-loop-light.svg`` and ``outer-loop-dark.svg`` beside itself, or into the folder given on the
command line. The documentation runs it while it is being built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from screening_regions import DARK, LIGHT, Ink

from fastsbl.datasets import make_sparse_regression
from fastsbl.lasso import solve_weighted_lasso
from fastsbl.sbl import fit_sbl, sbl_lambda_max

PROBLEM = make_sparse_regression(30, 60, n_nonzero=4, design="ar", correlation=0.7, snr_db=15, rng=6)
PHI, Y, TRUTH = PROBLEM.dictionary, PROBLEM.y, PROBLEM.coef
LAM = 0.05 * sbl_lambda_max(PHI, Y)
SHOWN = (1, 2, 25)


def outer_loop(n_iter: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Weights, coefficients and residual of each outer iteration, by the textbook formulas."""
    gamma = np.zeros(PHI.shape[1])
    steps = []
    for _ in range(n_iter):
        covariance = LAM * np.eye(PHI.shape[0]) + (PHI * gamma) @ PHI.T
        weights = np.sqrt(np.einsum("ij,ij->j", PHI, np.linalg.solve(covariance, PHI)))
        solution = solve_weighted_lasso(PHI, Y, LAM, weights, tol=1e-12)
        gamma = np.abs(solution.coef) / weights
        steps.append((weights, solution.coef, solution.residual))
    return steps


def draw(steps, ink: Ink) -> Figure:
    """Coefficients above, prices and correlations below, one column per iteration."""
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots(2, len(SHOWN), sharex=True, sharey="row")
    place = np.arange(PHI.shape[1])
    true = np.flatnonzero(TRUTH)
    for column, number in enumerate(SHOWN):
        weights, coef, residual = steps[number - 1]
        used = np.flatnonzero(coef)
        above, below = axes[:, column]
        above.axhline(0.0, color=ink.faint, lw=0.8, zorder=0)
        above.vlines(used, 0.0, coef[used], color=ink.region, lw=2.2, zorder=2)
        above.plot(true, TRUTH[true], ls="none", marker="o", ms=6.5, mfc="none", mec=ink.target, mew=1.4, zorder=3)
        above.set_title(f"Iteration {number}: {used.size} features", color=ink.text, fontsize=10.5)
        correlations = np.abs(PHI.T @ residual)
        colours = [ink.region if i in used else ink.faint for i in place]
        below.bar(place, correlations, width=0.7, color=colours, zorder=1)
        below.hlines(LAM * weights, place - 0.45, place + 0.45, color=ink.text, lw=1.3, zorder=2)
    axes[0, 0].set_ylabel("coefficient", color=ink.text)
    axes[1, 0].set_ylabel("correlation and price", color=ink.text)
    for panel in axes.flat:
        panel.patch.set_alpha(0.0)
        panel.tick_params(colors=ink.text, labelsize=8.5)
        for spine in panel.spines.values():
            spine.set_color(ink.faint)
    for panel in axes[1]:
        panel.set_xlabel("feature", color=ink.text)
    keys = [
        Line2D([], [], color=ink.region, lw=2.5, label="in the model"),
        Line2D([], [], marker="o", ms=6.5, ls="none", mfc="none", mec=ink.target, mew=1.4, label="truth"),
        Line2D([], [], color=ink.faint, lw=4, label="correlation of a feature that is out"),
        Line2D([], [], color=ink.text, lw=1.3, label="price"),
    ]
    legend = figure.legend(handles=keys, loc="outside lower center", ncols=4, frameon=False, fontsize=9.5)
    for text in legend.get_texts():
        text.set_color(ink.text)
    return figure


def main(folder: Path) -> None:
    """Write both pictures."""
    steps = outer_loop(max(SHOWN))
    assert np.array_equal(np.flatnonzero(steps[-1][1]), fit_sbl(PHI, Y, LAM).support)
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastsbl"}):
        for name, ink in (("light", LIGHT), ("dark", DARK)):
            draw(steps, ink).savefig(folder / f"outer-loop-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
