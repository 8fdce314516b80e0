"""Draw the dual of a small problem, and the region that each screening rule finds around its optimum.

Writes ``dual-light.svg``, ``region-sphere-light.svg`` and so on, and the same in dark, beside itself or into the
folder given on the command line. The documentation runs it while it is being built.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastsbl.lasso import solve_weighted_lasso
from fastsbl.screening import (
    dome_test,
    gap_dome_test,
    gap_sphere_test,
    holder_dome_test,
    sphere_test,
    two_hyperplane_test,
)

# Two samples, so that the dual has two dimensions; six features of unit norm, at these angles.
ANGLES = np.deg2rad([13, 32, 101, 125, 147, 165])
WEIGHTS = np.array([1.17, 1.25, 1.09, 1.00, 0.35, 1.22])
PHI = np.asfortranarray([np.cos(ANGLES), np.sin(ANGLES)])
Y = np.array([1.43, 1.06])
LAM = 1.0
ONE = 4  # the feature whose limits are pointed out
ROUGH = np.array([0.0, 0.1, 0.0, 0.0, -0.05, 0.0])  # a poor answer, for the rules that start from one


@dataclass(frozen=True)
class Ink:
    """Colours of one theme; the hues are those of Okabe and Ito, made for all kinds of colour vision."""

    text: str
    faint: str
    feasible: str
    region: str
    target: str
    optimum: str
    paper: str


LIGHT = Ink("#222222", "#9a9a9a", "#e3e3e3", "#0072b2", "#b35900", "#222222", "#ffffff")
DARK = Ink("#e8e8e8", "#7d8590", "#343a42", "#56b4e9", "#e69f00", "#ffffff", "#14181e")


def clip(polygon: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    """Return the part of a convex polygon, shape (k, 2), where ``normal' x <= offset``."""
    depth = polygon @ normal - offset
    kept = []
    for a, b, da, db in zip(polygon, np.roll(polygon, -1, axis=0), depth, np.roll(depth, -1), strict=True):
        if da <= 0:
            kept.append(a)
        if (da < 0 < db) or (db < 0 < da):
            kept.append(a + (b - a) * da / (da - db))
    return np.array(kept).reshape(-1, 2)


def feasible_polygon() -> np.ndarray:
    """Corners of {eta : |phi_i' eta| <= lam weights_i for every i}."""
    polygon = 10.0 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    for column, weight in zip(PHI.T, WEIGHTS, strict=True):
        polygon = clip(clip(polygon, column, LAM * weight), -column, LAM * weight)
    return polygon


def region_polygon(region) -> np.ndarray:
    """Outline of a ball cut by half-planes."""
    turn = np.linspace(0, 2 * np.pi, 241)[:-1]
    polygon = region.center + region.radius * np.column_stack([np.cos(turn), np.sin(turn)])
    for cut in region.half_spaces:
        polygon = clip(polygon, cut.normal, cut.offset)
    return polygon


def draw_limits(axes, ink: Ink, rejected: np.ndarray) -> None:
    """Draw the feasible set and the limits of each feature, dashed if the feature is rejected."""
    axes.fill(*feasible_polygon().T, facecolor=ink.feasible, edgecolor="none", zorder=0)
    along = np.array([-10.0, 10.0])
    for column, weight, out in zip(PHI.T, WEIGHTS, rejected, strict=True):
        style = {"color": ink.faint, "ls": (0, (4, 3)), "lw": 1.0} if out else {"color": ink.text, "lw": 1.2}
        for side in (-1, 1):
            foot, direction = side * LAM * weight * column, np.array([-column[1], column[0]])
            axes.plot(*(foot[:, None] + direction[:, None] * along), zorder=1, **style)


def new_panel(ink: Ink, width: float, limits: tuple[float, float, float, float]) -> tuple[Figure, Axes]:
    """Return a figure with one frame, as high as its limits ask for."""
    left, right, low, high = limits
    figure = Figure(figsize=(width, width * (high - low) / (right - left)))
    figure.patch.set_alpha(0.0)
    axes = figure.add_axes((0.004, 0.004, 0.992, 0.992))
    axes.patch.set_alpha(0.0)
    axes.set(xlim=(left, right), ylim=(low, high), aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color(ink.faint)
    return figure, axes


def draw_points(axes, optimum: np.ndarray, ink: Ink) -> None:
    """Mark the target and the optimum."""
    axes.plot(*Y, marker="s", ms=7, color=ink.target, ls="none", zorder=5)
    axes.plot(*optimum, marker="*", ms=13, color=ink.optimum, ls="none", zorder=5)


def draw_rule(screening, optimum: np.ndarray, ink: Ink) -> Figure:
    """Draw one rule: the feasible set, the target, the optimum, the region, and what it rejects."""
    assert screening.region.contains(optimum)
    figure, axes = new_panel(ink, 3.4, (-0.35, 1.75, -0.25, 1.55))
    draw_limits(axes, ink, screening.rejected)
    outline = region_polygon(screening.region)
    axes.fill(*outline.T, facecolor=ink.region, alpha=0.35, edgecolor="none", zorder=2)
    axes.fill(*outline.T, facecolor="none", edgecolor=ink.region, lw=1.8, zorder=3)
    draw_points(axes, optimum, ink)
    return figure


def draw_dual(optimum: np.ndarray, ink: Ink) -> Figure:
    """Draw the problem itself, with a word at each of its parts."""
    figure, axes = new_panel(ink, 6.6, (-1.9, 2.3, -1.25, 1.65))
    draw_limits(axes, ink, np.zeros(WEIGHTS.size, dtype=bool))
    along, normal = np.array([-PHI[1, ONE], PHI[0, ONE]]), LAM * WEIGHTS[ONE] * PHI[:, ONE]
    for side in (-1, 1):
        axes.plot(*(side * normal[:, None] + along[:, None] * np.array([-10.0, 10.0])), color=ink.region, lw=2.4)
    draw_points(axes, optimum, ink)
    axes.plot(*zip(optimum, Y, strict=True), color=ink.target, lw=1.4, ls=":", zorder=4)
    box = {"boxstyle": "round,pad=0.3", "facecolor": ink.paper, "edgecolor": "none"}
    words = {"fontsize": 12.5, "bbox": box, "zorder": 6}
    axes.text(Y[0] + 0.09, Y[1], "target", color=ink.target, va="center", **words)
    axes.text(optimum[0] + 0.14, optimum[1] - 0.04, "answer: the feasible\npoint nearest to it", color=ink.text,
              va="top", **words)  # fmt: skip
    axes.text(-0.15, -0.1, "feasible\npoints", color=ink.text, ha="center", **words)
    axes.text(0.12, -0.95, "the two limits of one feature", color=ink.region, **words)
    return figure


def main(folder: Path) -> None:
    """Write all pictures, light and dark."""
    optimum = solve_weighted_lasso(PHI, Y, LAM, WEIGHTS, tol=1e-12).residual
    static, dynamic = (PHI, Y, LAM, WEIGHTS), {"coef": ROUGH}
    rules = {
        "sphere": sphere_test(*static),
        "dome": dome_test(*static),
        "two-hyperplanes": two_hyperplane_test(*static),
        "gap-sphere": gap_sphere_test(*static, **dynamic),
        "gap-dome": gap_dome_test(*static, **dynamic),
        "holder-dome": holder_dome_test(*static, **dynamic),
    }
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastsbl"}):
        for theme, ink in (("light", LIGHT), ("dark", DARK)):
            draw_dual(optimum, ink).savefig(folder / f"dual-{theme}.svg", metadata={"Date": None})
            for name, screening in rules.items():
                picture = draw_rule(screening, optimum, ink)
                picture.savefig(folder / f"region-{name}-{theme}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
