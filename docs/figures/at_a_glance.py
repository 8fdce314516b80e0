"""Draw what the README and the first page show: a regression, a star field, and screening at work.

Writes ``at-a-glance.png`` beside itself, or into the folder given on the command line. The file is kept in the
repository, since the README shows it where nothing is built.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from fastsbl import fit_sbl
from fastsbl.datasets import make_sparse_regression
from fastsbl.imaging import locate_sources, make_starfield
from fastsbl.report import drawing, plot_posterior, plot_screening, plot_sources


def draw() -> Figure:
    """Three panels, one for each thing."""
    problem = make_sparse_regression(200, 5000, n_nonzero=8, design="ar", snr_db=8, rng=0)
    phi, y = problem.dictionary, problem.y
    field = make_starfield((40, 40), 6, snr_db=12.0, rng=5)
    result, catalog = fit_sbl(phi, y), locate_sources(field.image)
    assert np.array_equal(result.support, problem.support)
    assert len(catalog) == len(field.xy)
    with drawing():
        figure = Figure(figsize=(11.6, 3.9), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.0, 0.8, 1.0))
        plot_posterior(result, truth=problem.coef, ax=left)
        left.set_title("8 of 5,000 features found,\nand how sure it is", pad=26)
        plot_sources(catalog, field.image, truth=field.xy, ax=middle)
        middle.set_title("6 point sources\nfound in noise", pad=26)
        middle.set(xlabel="", ylabel="")
        for axes in (left, middle):
            axes.get_legend().set_in_layout(False)
        weights = np.linalg.norm(phi, axis=0)
        plot_screening(phi, y, weights=weights, rules=("two_hyperplanes", "gap_sphere", "holder"), ax=right)
        right.set_title("features proved to be out\nbefore a lasso is solved")
        right.get_legend().remove()
        for line, (x, y, text) in zip(
            right.lines,
            (
                (0.053, 89, "all that are zero"),
                (0.59, 40, "two hyper-\nplanes"),
                (0.105, 18, "gap sphere"),
                (0.13, 50, "Hölder dome"),
            ),
            strict=True,
        ):
            right.text(x, y, text, color=line.get_color(), fontsize=9.5, ha="left")
    return figure


def main(folder: Path) -> None:
    """Write the picture."""
    with mpl.rc_context({"text.parse_math": False}):
        draw().savefig(folder / "at-a-glance.png", dpi=110, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
