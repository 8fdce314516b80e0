"""Figures of the classification study: the paper's two, time against accuracy, and what explains an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastsbl._base.types import Array
from fastsbl.studies._classification_claims import (
    NAMES,
    Measured,
    accuracies,
    compared,
    grid_of,
)
from fastsbl.studies._classifiers import UNDECIDED
from fastsbl.studies._explained import EXPLAIN_RATIO, image_from
from fastsbl.studies.figures import BarStrip, Figure, ImageGrid, ImagePanel, LineFigure, ScatterFigure, Series
from fastsbl.studies.store import Store
from fastsbl.studies.study import Record

if TYPE_CHECKING:
    from fastsbl.studies.classification import ClassificationConfig

__all__ = ["classification_figures"]

RATIO_LABEL = "λ / λ_max"
_ATOMS = 5  # beside each image
_VARIANTS = (
    "evidence-single",
    "evidence-positive",
)  # of the default; the table has them, and a figure shows few things
_CURVES = (("sbl", "abs-sum"), ("sbl", "residual"), ("evidence-single", "evidence"), ("lasso", "abs-sum"))


def classification_figures(store: Store, config: ClassificationConfig) -> list[Figure]:
    """All figures for which there are results."""
    from fastsbl.studies.classification import ZERO_RATIO

    found = accuracies(store)
    grid = grid_of(found)
    figures: list[Figure] = []
    if len(grid.get(("sbl", "abs-sum"), {})) > 1:
        figures += [_accuracy(grid, ZERO_RATIO, fine=False), _accuracy(grid, ZERO_RATIO, fine=True)]
    if found:
        figures.append(_speed(grid, list(compared(found))))
    images = _images(store)
    walks = [row for row in store.records(task="walk") if row["kind"] == "answer"]
    followed = list(dict.fromkeys(row["image"] for row in walks))
    for k, image in enumerate(followed):
        figures.append(_bar(f"bar-{k}", [row for row in walks if row["image"] == image], images))
    for k, image in enumerate(followed):
        figures.append(_walk(f"walk-{k}", [row for row in walks if row["image"] == image], images))
    explained = [row for row in store.records(task="explain") if row["kind"] == "answer"]
    figures += _pages(explained, images)
    return figures


def _images(store: Store) -> dict[tuple[str, int], Array]:
    """Images that answers name, by kind and place."""
    return {
        (row["kind"], row["place"]): image_from(row["pixels"], (row["height"], row["width"]))
        for task in ("explain", "walk")
        for row in store.records(task=task)
        if row["kind"] != "answer"
    }


# -- accuracy -----------------------------------------------------------------------------------------------------
def _accuracy(grid: dict[tuple[str, str], dict[float, Measured]], zero: float, *, fine: bool) -> LineFigure:
    series = []
    for method, score in _CURVES:
        values = grid.get((method, score), {})
        if len(values) > 1:
            label = NAMES[method, score]
            series.append(_curve(label, values, zero, emphasis=(method, score) == ("sbl", "abs-sum")))
    lowest = min(float(np.nanmin(line.y[line.x <= 0.11], initial=100.0)) for line in series)
    guides = [
        (100 * one.accuracy.mean, label)
        for key, value, label in ((("neighbours", "vote"), 1.0, "1 neighbour"),)
        if (one := grid.get(key, {}).get(value)) is not None
    ]
    guides += [
        (100 * one.accuracy.mean, "RBF SVM")
        for one in [_best(grid.get(("svm", "prediction"), {}))]
        if one is not None and fine
    ]
    ends = ", ".join(f"{line.label} from {line.y[0]:.1f} to {line.y[-1]:.1f} %" for line in series)
    runs = max(len(one.runs) for one in grid["sbl", "abs-sum"].values())
    return LineFigure(
        name="accuracy-small" if fine else "accuracy",
        title="Accuracy for small λ" if fine else "Accuracy against λ",
        alt=f"Lines of accuracy against lambda over lambda_max: {ends}.",
        caption=f"Mean over {runs} runs; bands: one standard error. λ = 0 stands for {zero:g} λ_max. Images that no "
        "training image explains count as errors.",
        x_label=RATIO_LABEL,
        y_label="accuracy, %",
        x_scale="log" if fine else "linear",
        x_limits=(0.8 * zero, 0.13) if fine else (-0.02, 1.02),
        y_limits=(max(0.0, np.floor(lowest) - 1.0), 100.0) if fine else (0.0, 100.0),
        series=tuple(series),
        guides=tuple(guides),
    )


def _best(values: dict[float, Measured]) -> Measured | None:
    return max(values.values(), key=lambda one: one.accuracy.mean) if values else None


def _curve(label: str, values: dict[float, Measured], zero: float, *, emphasis: bool) -> Series:
    x = [value or zero for value in values]
    order = np.argsort(x)
    ones = [list(values.values())[k] for k in order]
    mean = np.array([100 * one.accuracy.mean for one in ones])
    error = np.array([100 * np.nan_to_num(one.accuracy.error) for one in ones])
    return Series(label, np.array(x)[order], mean, mean - error, mean + error, emphasis)


def _speed(
    grid: dict[tuple[str, str], dict[float, Measured]], entries: list[tuple[str, str, float, Measured]]
) -> ScatterFigure:
    """One point for each method, with the better of its scores; all values of lambda for the paper's rule."""
    better: dict[str, list[tuple[str, str, float, Measured]]] = {}
    for entry in entries:
        if entry[0] in _VARIANTS:
            continue
        rivals = better.setdefault(entry[0], [])
        if entry[0] == "neighbours" or not rivals:
            rivals.append(entry)
        elif entry[3].held_out > rivals[0][3].held_out:
            rivals[0] = entry
    sums = [one for value, one in grid.get(("sbl", "abs-sum"), {}).items() if value <= 0.7]
    series = [_cloud(f"{NAMES['sbl', 'abs-sum']}, all λ", sums)] if sums else []
    for method, rivals in better.items():
        if method != "sbl":
            name = "1 and 5 nearest neighbours" if method == "neighbours" else NAMES[rivals[0][:2]]
            series.append(_cloud(name, [one for *_, one in rivals], emphasis=method == "evidence"))
    best = max(entries, key=lambda entry: entry[3].accuracy.mean, default=None)
    low = min((float(one.y.min()) for one in series), default=0.0)
    told = "" if best is None else f" The most accurate is {NAMES[best[:2]]}, {best[3].accuracy.percent()}."
    return ScatterFigure(
        name="speed",
        title="Accuracy against time",
        alt=f"Points: the accuracy of each way of classifying against its time for one image.{told}",
        caption="Processor time; bars: one standard error. Each at the parameter that is best on held-out images, "
        "with the better of its scores there; the paper's rule at every λ up to .7 λ_max.",
        x_label="seconds per image",
        y_label="accuracy, %",
        x_scale="log",
        y_limits=(max(0.0, np.floor(low) - 1.0), 100.0),
        series=tuple(series),
    )


def _cloud(label: str, ones: list[Measured], *, emphasis: bool = False) -> Series:
    mean = np.array([100 * one.accuracy.mean for one in ones])
    error = np.array([100 * np.nan_to_num(one.accuracy.error) for one in ones])
    return Series(label, [max(one.seconds, 1e-6) for one in ones], mean, mean - error, mean + error, emphasis)


# -- explanations -------------------------------------------------------------------------------------------------
def _bar(name: str, rows: list[Record], images: dict[tuple[str, int], Array]) -> BarStrip:
    rows = sorted(rows, key=lambda row: row["ratio"])
    scores = np.array([row["scores"] for row in rows]).T
    truth = rows[0]["truth"]
    right = [row["ratio"] for row in rows if row["predicted"] == truth]
    told = f"right at {len(right)} of {len(rows)} values of lambda"
    return BarStrip(
        name=name,
        title=f"prob_k against λ: a {truth}",
        alt=f"Strip of colours: the score of each digit against lambda over lambda_max for the image of a {truth}, "
        f"whose row is marked; {told}.",
        caption="The sum of |weights| of each digit's training images, scaled to norm 1 over the digits (the paper's "
        f"prob_k). The true digit is marked; the answer is {told}. Nothing is explained where all rows are dark.",
        scores=scores,
        classes=tuple(str(k) for k in range(scores.shape[0])),
        steps=[row["ratio"] for row in rows],
        x_label=RATIO_LABEL,
        y_label="digit",
        value_label="prob_k",
        truth=str(truth),
        image=ImagePanel(images["query", rows[0]["place"]], title="the image"),
    )


def _walk(name: str, rows: list[Record], images: dict[tuple[str, int], Array]) -> ImageGrid:
    rows = sorted(rows, key=lambda row: -row["ratio"])  # a slider begins at its last position
    truth = rows[0]["truth"]
    panels = []
    for row in rows:
        answer = "no answer" if row["predicted"] == UNDECIDED else f"answer {row['predicted']}"
        best = np.argsort(-np.array(row["scores"]), kind="stable")[:2]
        note = " ".join(f"{k}: {row['scores'][k]:.2f}" for k in best if row["scores"][k] > 0)
        step = f"{row['ratio']:g}"
        panels.append(
            ImagePanel(images["query", row["place"]], f"a {truth}: {answer}", note or "no image used", step=step)
        )
        panels += _atoms(row, images, step)
    return ImageGrid(
        name=name,
        title=f"What explains a {truth}",
        alt=f"The image of a {truth} and, for each lambda over lambda_max, the training images with the largest "
        "weights in its explanation.",
        caption="First the image with the two largest prob_k, then the training images with the largest weights.",
        panels=tuple(panels),
        columns=_ATOMS + 1,
        slider=RATIO_LABEL,
    )


def _atoms(row: Record, images: dict[tuple[str, int], Array], step: str = "") -> list[ImagePanel]:
    """The training images of largest weight, and empty panels in the place of those that are not there."""
    shown = [
        ImagePanel(images["atom", place], title=f"{label}: {weight:+.2f}", step=step)
        for place, label, weight in zip(row["atoms"], row["atom_labels"], row["atom_weights"], strict=True)
    ][:_ATOMS]
    blank = np.full(images["query", row["place"]].shape, np.nan)
    return shown + [ImagePanel(blank, step=step) for _ in range(_ATOMS - len(shown))]


def _pages(rows: list[Record], images: dict[tuple[str, int], Array]) -> list[Figure]:
    """The first image of each digit that is right, and those that are wrong."""
    first: dict[int, Record] = {}
    for row in rows:
        if row["predicted"] == row["truth"]:
            first.setdefault(row["truth"], row)
    right = [first[digit] for digit in sorted(first)]
    wrong = [row for row in rows if row["predicted"] != row["truth"]][:6]
    pages: list[Figure] = []
    for name, title, part in (
        ("explained", "Why these digits got their class", right),
        ("mistaken", "Digits that the paper's rule gets wrong, and why", wrong),
    ):
        if part:
            pages.append(_page(name, title, part, images))
    return pages


def _page(name: str, title: str, rows: list[Record], images: dict[tuple[str, int], Array]) -> ImageGrid:
    panels = []
    for row in rows:
        answer = "?" if row["predicted"] == UNDECIDED else row["predicted"]
        panels.append(ImagePanel(images["query", row["place"]], f"a {row['truth']}, answer {answer}"))
        panels += _atoms(row, images)
    digits = ", ".join(str(row["truth"]) for row in rows)
    return ImageGrid(
        name=name,
        title=title,
        alt=f"One row for each of the images of {digits}: the image, then the {_ATOMS} training images with the "
        "largest weights in its explanation, with their digits and weights.",
        caption=f"λ / λ_max = {EXPLAIN_RATIO:g}. First the image, then the training images with the largest weights.",
        panels=tuple(panels),
        columns=_ATOMS + 1,
    )
