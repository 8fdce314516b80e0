"""Draw how many nonzeros each method recovers, from the table that `benchmarks/phase_transition.py` writes.

Writes ``phase-transition-light.svg`` and ``phase-transition-dark.svg`` beside itself, or into the folder given on the
command line. The documentation runs it while it is being built.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from screening_regions import DARK, LIGHT, Ink

TABLE = Path(__file__).parent / "phase-transition.csv"
TITLES = {"DCT": "Random rows of the DCT", "Gaussian": "Gaussian", "coherent": "Coherent: .8 between neighbours"}


def read_table(path: Path) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Share recovered against k, for each dictionary and method."""
    curves: dict[tuple[str, str], list[tuple[int, float]]] = {}
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        curves.setdefault((row["dictionary"], row["method"]), []).append((int(row["k"]), float(row["recovered"])))
    return curves


def draw(curves, ink: Ink) -> Figure:
    """One panel for each dictionary, one curve for each method."""
    styles = {
        "SBL, noise learned": {"color": ink.region, "lw": 2.4, "marker": "o", "ms": 4},
        "SBL, noise known": {"color": ink.region, "lw": 1.3, "ls": (0, (4, 2))},
        "ARDRegression": {"color": ink.target, "lw": 1.6, "marker": "s", "ms": 3.5},
        "OMP, k known": {"color": "#009e73", "lw": 1.6, "marker": "^", "ms": 4},
        "LassoCV": {"color": ink.faint, "lw": 1.6, "marker": "x", "ms": 4},
    }
    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    figure.patch.set_alpha(0.0)
    kinds = [kind for kind in TITLES if (kind, "LassoCV") in curves]
    panels = figure.subplots(1, len(kinds), sharex=True, sharey=True, squeeze=False)[0]
    for panel, kind in zip(panels, kinds, strict=True):
        for name, style in styles.items():
            sizes, shares = zip(*curves[kind, name], strict=True)
            panel.plot(sizes, shares, label=name, zorder=3 if name.startswith("SBL") else 2, **style)
        panel.set_title(TITLES[kind], color=ink.text, fontsize=10.5)
        panel.set_xlabel("nonzeros among 400, from 100 samples", color=ink.text, fontsize=9)
        panel.grid(color=ink.faint, alpha=0.25, lw=0.5)
        panel.set_ylim(-0.03, 1.03)
        panel.patch.set_alpha(0.0)
        panel.tick_params(colors=ink.text, labelsize=8.5)
        for side, spine in panel.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set_color(ink.faint)
    panels[0].set_ylabel("share recovered", color=ink.text)
    legend = figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(styles), frameon=False, fontsize=9
    )
    for text in legend.get_texts():
        text.set_color(ink.text)
    return figure


def main(folder: Path) -> None:
    """Write both pictures."""
    curves = read_table(TABLE)
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "fastsbl"}):
        for name, ink in (("light", LIGHT), ("dark", DARK)):
            draw(curves, ink).savefig(folder / f"phase-transition-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
