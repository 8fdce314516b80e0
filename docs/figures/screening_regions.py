"""Draw the dual of a small problem, and the region that each screening rule finds around its optimum.

Writes ``screening-regions-light.svg`` and ``screening-regions-dark.svg`` beside itself, or into the folder
given on the command line. The documentation runs it while it is being built.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

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


LIGHT = Ink("#222222", "#9a9a9a", "#e3e3e3", "#0072b2", "#b35900", "#222222")
DARK = Ink("#e8e8e8", "#7d8590", "#343a42", "#56b4e9", "#e69f00", "#ffffff")


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


def draw_panel(axes, title: str, screening, optimum: np.ndarray, ink: Ink) -> None:
    """Draw one rule: the feasible set, the target, the optimum, the region, and what it rejects."""
    axes.fill(*feasible_polygon().T, facecolor=ink.feasible, edgecolor="none", zorder=0)
    along = np.array([-10.0, 10.0])
    for column, weight, rejected in zip(PHI.T, WEIGHTS, screening.rejected, strict=True):
        style = {"color": ink.faint, "ls": (0, (1, 2)), "lw": 1.0} if rejected else {"color": ink.text, "lw": 1.1}
        for side in (-1, 1):
            foot, direction = side * LAM * weight * column, np.array([-column[1], column[0]])
            axes.plot(*(foot[:, None] + direction[:, None] * along), zorder=1, **style)
    outline = region_polygon(screening.region)
    axes.fill(*outline.T, facecolor=ink.region, alpha=0.35, edgecolor="none", zorder=2)
    axes.fill(*outline.T, facecolor="none", edgecolor=ink.region, lw=1.8, zorder=3)
    axes.plot(*Y, marker="s", ms=6.5, color=ink.target, ls="none", zorder=5)
    axes.plot(*optimum, marker="*", ms=11, color=ink.optimum, ls="none", zorder=5)
    axes.set_title(f"{title}: {screening.rejected.sum()} of {screening.rejected.size}", color=ink.text, fontsize=10.5)
    axes.set(xlim=(-0.35, 1.75), ylim=(-0.25, 1.55), aspect="equal", xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color(ink.faint)


def draw(ink: Ink) -> Figure:
    """Draw the six panels."""
    optimum = solve_weighted_lasso(PHI, Y, LAM, WEIGHTS, tol=1e-12).residual
    static, dynamic = (PHI, Y, LAM, WEIGHTS), {"coef": ROUGH}
    panels = {
        "Sphere": sphere_test(*static),
        "Dome": dome_test(*static),
        "Two hyperplanes": two_hyperplane_test(*static),
        "Gap sphere": gap_sphere_test(*static, **dynamic),
        "Gap dome": gap_dome_test(*static, **dynamic),
        "Hölder dome": holder_dome_test(*static, **dynamic),
    }
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    figure.patch.set_alpha(0.0)
    for axes, (title, screening) in zip(figure.subplots(2, 3).flat, panels.items(), strict=True):
        assert screening.region.contains(optimum)
        axes.patch.set_alpha(0.0)
        draw_panel(axes, title, screening, optimum, ink)
    keys = [
        Patch(facecolor=ink.feasible, label="feasible dual points"),
        Patch(facecolor=(*mpl.colors.to_rgb(ink.region), 0.35), edgecolor=ink.region, label="region"),
        Line2D([], [], marker="s", ms=6.5, ls="none", color=ink.target, label="target"),
        Line2D([], [], marker="*", ms=11, ls="none", color=ink.optimum, label="dual optimum"),
        Line2D([], [], color=ink.text, lw=1.1, label="constraint kept"),
        Line2D([], [], color=ink.faint, lw=1.0, ls=(0, (1, 2)), label="constraint rejected"),
    ]
    legend = figure.legend(handles=keys, loc="outside lower center", ncols=6, frameon=False, fontsize=9.5)
    for text in legend.get_texts():
        text.set_color(ink.text)
    return figure


def main(folder: Path) -> None:
    """Write both pictures."""
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastsbl"}):
        for name, ink in (("light", LIGHT), ("dark", DARK)):
            draw(ink).savefig(folder / f"screening-regions-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
