"""Answers kept with the images behind them, so that a report can show why an image got its class."""

from __future__ import annotations

import base64
from collections.abc import Iterable

import numpy as np

from fastsbl._base.types import Array
from fastsbl.estimators._class_scores import abs_sum
from fastsbl.studies._classifiers import UNDECIDED, Columns, Digits, Queries, sparse_fits
from fastsbl.studies.study import Record

__all__ = ["EXPLAIN_RATIO", "WALK_RATIOS", "explain_images", "image_from", "walk_images"]

EXPLAIN_RATIO = 0.02
"""lambda / lambda_max of the answers that are explained."""

WALK_RATIOS = (
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7,
    0.8, 0.9, 1.0,
)  # fmt: skip
"""lambda / lambda_max at which some images are followed."""

_MOST = 6  # training images shown for each answer
_OTHER_RATIO = 0.3  # images whose class differs between here and EXPLAIN_RATIO are the ones to follow


def explain_images(digits: Digits, images: int, count: int) -> list[Record]:
    """Answers for the first ``count`` images of run 0, and every image they need."""
    columns, queries = digits.columns(0), _first(digits.test_queries(0, images), range(count))
    answers = [{"image": k, **record} for k, record in enumerate(_answers(columns, queries, EXPLAIN_RATIO))]
    return answers + _pixels(digits, answers)


def walk_images(digits: Digits, images: int, count: int, walks: int) -> list[Record]:
    """Answers for ``walks`` of the first ``count`` images of run 0 over a grid of lambda, and every image they need.

    Images that change their class with lambda come first.
    """
    columns, queries = digits.columns(0), _first(digits.test_queries(0, images), range(count))
    here, there = (
        np.array([record["predicted"] for record in _answers(columns, queries, ratio)])
        for ratio in (EXPLAIN_RATIO, _OTHER_RATIO)
    )
    chosen = np.argsort(here == there, kind="stable")[:walks]
    followed = _first(queries, chosen)
    answers = [
        {"image": int(chosen[k]), "ratio": ratio, **record}
        for ratio in WALK_RATIOS
        for k, record in enumerate(_answers(columns, followed, ratio))
    ]
    return answers + _pixels(digits, answers)


def image_from(pixels: str, shape: tuple[int, int]) -> Array:
    """Undo what `_pixels` did to an image."""
    return np.frombuffer(base64.b64decode(pixels), dtype=np.uint8).reshape(shape)


def _first(queries: Queries, index: Iterable[int]) -> Queries:
    some = list(index)
    return Queries(queries.targets[:, some], queries.truth[some], queries.place[some])


def _answers(columns: Columns, queries: Queries, ratio: float) -> list[Record]:
    """One record for each query: its scores and the training images of largest weight."""
    found, _ = sparse_fits(columns, queries, ratio)
    scores = abs_sum(found, columns.dictionary, queries.targets, columns.labels, int(columns.labels.max()) + 1)
    records = []
    for k, one in enumerate(found):
        largest = np.argsort(-np.abs(one.coef), kind="stable")[:_MOST]
        used = one.support[largest]
        records.append(
            {
                "kind": "answer",
                "place": queries.place[k],
                "truth": queries.truth[k],
                "predicted": int(scores[k].argmax()) if one.support.size else UNDECIDED,
                "scores": scores[k].round(4),
                "support": one.support.size,
                "atoms": columns.place[used],
                "atom_weights": one.coef[largest].round(4),
                "atom_labels": columns.labels[used],
            }
        )
    return records


def _pixels(digits: Digits, answers: list[Record]) -> list[Record]:
    """Grey values of all images that answers name, each once."""
    queries = sorted({int(answer["place"]) for answer in answers})
    atoms = sorted({int(place) for answer in answers for place in answer["atoms"]})
    sets = (("query", queries, digits.images.test_images), ("atom", atoms, digits.images.train_images))
    height, width = digits.shape
    return [
        {
            "kind": kind,
            "place": place,
            "height": height,
            "width": width,
            "pixels": base64.b64encode(np.ascontiguousarray(images[place]).tobytes()).decode("ascii"),
        }
        for kind, places, images in sets
        for place in places
    ]
