"""Draw small digits with the training images that explain them, and scores against the noise variance.

Writes ``classification-explained.svg`` and ``classification-bar.svg`` beside itself, or into the folder given on the
command line: two figures of a small run of the classification study.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from fastsbl.report import draw
from fastsbl.studies import Store, find_study, run_study
from fastsbl.studies.classification import ClassificationConfig, MethodPlan

PLANS = (MethodPlan("neighbours", (1.0,), choose=False, runs=1),)


def main(folder: Path) -> None:
    """Write the pictures."""
    study = find_study("classification")
    config = ClassificationConfig(data="digits", runs=1, plans=PLANS, held_out=0, explained=40, walks=1)
    with tempfile.TemporaryDirectory() as place:
        run_study(study, config, place)
        with Store.open(place) as store:
            figures = {figure.name: figure for figure in study.figures(store)}
    for name, figure in (("explained", figures["explained"]), ("bar", figures["bar-0"])):
        draw(figure).savefig(folder / f"classification-{name}.svg", facecolor="white")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
