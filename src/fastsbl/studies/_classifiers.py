"""The ways of classifying that the classification study compares, all on the same columns and queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from fastsbl._base.types import Array, FloatArray, IndexArray
from fastsbl.datasets import DigitImages, choose_per_class, fetch_mnist, load_small_digits
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.estimators import SparseRepresentationClassifier
from fastsbl.estimators._class_scores import JOINT_SCORES
from fastsbl.estimators._representations import Representation, represent
from fastsbl.studies.study import Record

__all__ = ["METHODS", "UNDECIDED", "Columns", "Digits", "Queries", "classify", "sparse_fits"]

_MOST_PRODUCTS = 12_000
_SHARES = (1.0, 0.5, 0.25)  # of the largest noise variance, over which the default of the classifier averages
UNDECIDED = -1
"""In the place of a class where no training image explains a query."""


@dataclass(frozen=True)
class Queries:
    """Images to classify.

    Attributes
    ----------
    targets : array of shape (N, M)
        One image per column, unit norm.
    truth : int array of shape (M,)
        Their classes.
    place : int array of shape (M,)
        Where they stand in the set they were drawn from.
    """

    targets: FloatArray
    truth: IndexArray
    place: IndexArray


@dataclass
class Columns:
    """Training images as unit columns, and what was made of them so far.

    Attributes
    ----------
    matrix : array of shape (N, n)
        The columns.
    labels : int array of shape (n,)
        Their classes.
    place : int array of shape (n,)
        Where they stand in the training set.
    models : dict
        Classifiers fitted to them, by name and parameter.
    """

    matrix: Array
    labels: IndexArray
    place: IndexArray
    models: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def dictionary(self) -> Dictionary:
        """The columns as a dictionary, with their norms and, for up to 12,000, all their inner products."""
        made = as_dictionary(self.matrix)
        made.column_norms()
        return made.with_gram(single=True) if made.n_features <= _MOST_PRODUCTS else made

    def model(self, name: str, parameter: float, make: Callable[[], Any]) -> Any:
        """Return a classifier fitted to these images, once."""
        if (name, parameter) not in self.models:
            self.models[name, parameter] = make().fit(self.matrix.T, self.labels)
        return self.models[name, parameter]


class Digits:
    """Images, and the draws of a study from them.

    Parameters
    ----------
    data : {"mnist", "digits"}
        MNIST, or the small digits that come with scikit-learn.
    per_class : int or None
        Columns per digit; by default 1,000, or 100 for the small ones.
    seed : int
        Of all draws.
    """

    def __init__(self, data: str, per_class: int | None, seed: int) -> None:
        self.images: DigitImages = fetch_mnist() if data == "mnist" else load_small_digits()
        self.name = {"mnist": "MNIST", "digits": "small digits"}[data]
        self.per_class = per_class or (1_000 if data == "mnist" else 100)
        self.seed = seed
        self._columns: dict[int | None, Columns] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of an image."""
        return int(self.images.test_images.shape[1]), int(self.images.test_images.shape[2])

    def columns(self, draw: int | None) -> Columns:
        """Phi: draw number ``draw`` of ``per_class`` training images of each digit, or all of them for None.

        Draw 0 is that of `fastsbl.datasets.mnist_dictionary`. All of them are kept in single precision.
        """
        if draw not in self._columns:
            self._columns.clear()  # one at a time: it is large
            labels = self.images.train_labels
            if draw is None:
                place = np.argsort(labels, kind="stable")
            else:
                place = choose_per_class(labels, self.per_class, self.seed + draw)
            matrix = unit_columns(self.images.train_images[place], np.float32 if draw is None else np.float64)
            self._columns[draw] = Columns(matrix, labels[place].astype(np.intp), place)
        return self._columns[draw]

    def drawn(self, run: int, count: int) -> IndexArray:
        """Draw ``count`` test images for a run; where they stand in the test set."""
        size = self.images.test_labels.size
        return np.random.default_rng([self.seed, 2, run]).choice(size, min(count, size), replace=False)

    def test_queries(self, run: int, count: int) -> Queries:
        """Return the ``count`` test images of a run."""
        return self._test_images(self.drawn(run, count))

    def new_queries(self, run: int, count: int) -> Queries:
        """Return those test images of a run that no run before it has drawn; at least one."""
        place = self.drawn(run, count)
        before = [self.drawn(k, count) for k in range(run)]
        new = ~np.isin(place, np.concatenate(before)) if before else np.ones(place.size, dtype=bool)
        return self._test_images(place[new] if new.any() else place[:1])

    def _test_images(self, place: IndexArray) -> Queries:
        labels = self.images.test_labels[place].astype(np.intp)
        return Queries(unit_columns(self.images.test_images[place]), labels, place)

    def held_out(self, run: int, count: int) -> Queries:
        """Return batch ``run`` of training images that draw 0 has left."""
        labels = self.images.train_labels
        left = np.setdiff1d(np.arange(labels.size), choose_per_class(labels, self.per_class, self.seed))
        place = np.random.default_rng([self.seed, 3]).permutation(left)[run * count : (run + 1) * count]
        return Queries(unit_columns(self.images.train_images[place]), labels[place].astype(np.intp), place)


def unit_columns(images: Array, dtype: Any = np.float64) -> Array:
    """Images as columns of unit norm, in Fortran order."""
    count, height, width = images.shape
    flat = np.asfortranarray(images.reshape(count, height * width).T.astype(dtype))
    norms = np.linalg.norm(flat, axis=0)
    flat /= np.where(norms > 0, norms, 1)
    return flat


def classify(columns: Columns, queries: Queries, method: str, value: float) -> list[Record]:
    """Classify queries and say how well it went, one record for each score that the method has.

    ``seconds`` is processor time for one image.
    """
    if queries.truth.size == 0:
        return []
    prepare, answer = METHODS[method]
    prepared = prepare(columns, value)
    start = time.process_time()  # what else runs on the machine does not count
    answers, facts = answer(columns, queries, value, prepared)
    seconds = (time.process_time() - start) / queries.truth.size
    return [
        {
            "score": score,
            "accuracy": float(np.mean(predicted == queries.truth)),
            "undecided": int(np.count_nonzero(predicted == UNDECIDED)),
            "images": int(queries.truth.size),
            "place": queries.place,
            "predicted": predicted,
            "right": (predicted == queries.truth).astype(int),
            "seconds": seconds,
            **facts,
        }
        for score, predicted in answers.items()
    ]


_Answer = tuple[dict[str, IndexArray], Record]


def sparse_fits(
    columns: Columns, queries: Queries, ratio: float, method: str = "sbl"
) -> tuple[list[Representation], FloatArray]:
    """Write queries as sparse combinations of the columns, from u = 1 as the paper does, and their lambda."""
    lam = ratio * np.abs(columns.dictionary.correlate(queries.targets)).max(axis=0)
    return represent(columns.dictionary, queries.targets, lam, method=method, init="unit"), lam


def _nothing(columns: Columns, value: float) -> Dictionary:
    return columns.dictionary


def _sparse(columns: Columns, queries: Queries, ratio: float, prepared: Dictionary, method: str) -> _Answer:
    found, _ = sparse_fits(columns, queries, ratio, method)
    answers = _joint_answers(found, columns, queries)
    sizes = [one.support.size for one in found]
    return answers, {"support": float(np.mean(sizes))}


def _joint_answers(found: list[Representation], columns: Columns, queries: Queries) -> dict[str, IndexArray]:
    classes = np.unique(columns.labels)
    empty = np.array([one.support.size == 0 for one in found])
    answers = {}
    for name, score in JOINT_SCORES.items():
        scores = score(found, columns.dictionary, queries.targets, columns.labels, int(classes.max()) + 1)
        answers[name] = np.where(empty, UNDECIDED, scores.argmax(axis=1))
    return answers


def _evidence_model(
    columns: Columns, ratio: float, shares: tuple[float, ...] = (1.0,), *, positive: bool = False
) -> SparseRepresentationClassifier:
    def make() -> SparseRepresentationClassifier:
        ratios = [ratio * share for share in shares]
        return SparseRepresentationClassifier(noise_ratio=ratios, positive=positive, n_jobs=1)

    made: SparseRepresentationClassifier = columns.model(f"evidence {shares} {positive}", ratio, make)
    return made


def _evidence(columns: Columns, queries: Queries, ratio: float, model: SparseRepresentationClassifier) -> _Answer:
    found = model.classify(queries.targets.T)
    return {"evidence": np.where(found.undecided, UNDECIDED, found.predicted)}, {}


def _neighbours(columns: Columns, queries: Queries, count: float, prepared: Dictionary) -> _Answer:
    """Most frequent class among the nearest by cosine; the nearer class where classes are equally frequent."""
    products = columns.dictionary.correlate(queries.targets).T
    nearest = np.argsort(-products, axis=1, kind="stable")[:, : int(count)]
    near = columns.labels[nearest]
    votes = np.zeros((near.shape[0], int(columns.labels.max()) + 1))
    for k in range(near.shape[1]):
        votes[np.arange(near.shape[0]), near[:, k]] += 1.0 + 1e-6 * 0.5**k
    return {"vote": votes.argmax(axis=1)}, {}


def _ridge_map(columns: Columns, penalty: float) -> FloatArray:
    """Phi' (Phi Phi' + penalty I)^-1, which gives the weights of all columns in one product."""
    from scipy.linalg import cho_factor, cho_solve

    matrix = np.asarray(columns.matrix, dtype=np.float64)
    factor = cho_factor(matrix @ matrix.T + penalty * np.eye(matrix.shape[0]))
    return np.asarray(cho_solve(factor, matrix).T)


def _ridge(columns: Columns, queries: Queries, penalty: float, weights: FloatArray) -> _Answer:
    """Class residuals and sums as for the sparse answers; every column has a weight here."""
    coef = weights @ queries.targets
    classes = np.unique(columns.labels)
    parts = [columns.labels == k for k in classes]
    left = [np.linalg.norm(queries.targets - columns.matrix[:, part] @ coef[part], axis=0) for part in parts]
    sums = [np.abs(coef[part]).sum(axis=0) for part in parts]
    return {"abs-sum": classes[np.argmax(sums, axis=0)], "residual": classes[np.argmin(left, axis=0)]}, {}


def _logistic(columns: Columns, c: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return columns.model("logistic", c, lambda: LogisticRegression(C=c, max_iter=2_000))


def _svm(columns: Columns, c: float) -> Any:
    from sklearn.svm import SVC

    return columns.model("svm", c, lambda: SVC(C=c, gamma="scale"))


def _predicted(columns: Columns, queries: Queries, value: float, model: Any) -> _Answer:
    return {"prediction": model.predict(queries.targets.T)}, {}


METHODS: dict[str, tuple[Callable[..., Any], Callable[..., _Answer]]] = {
    "sbl": (_nothing, partial(_sparse, method="sbl")),
    "evidence": (partial(_evidence_model, shares=_SHARES), _evidence),
    "evidence-single": (_evidence_model, _evidence),
    "evidence-positive": (partial(_evidence_model, shares=_SHARES, positive=True), _evidence),
    "lasso": (_nothing, partial(_sparse, method="lasso")),
    "ridge": (_ridge_map, _ridge),
    "neighbours": (_nothing, _neighbours),
    "logistic": (_logistic, _predicted),
    "svm": (_svm, _predicted),
}
"""How each method prepares itself for the columns (not timed), and how it answers."""
