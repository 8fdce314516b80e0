"""`SparseRepresentationClassifier`: the class whose training samples explain a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from scipy.special import log_softmax, logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fastsbl._base.checks import check_choice, check_positive_number, check_whole_number
from fastsbl._base.types import Array, BoolArray, FloatArray
from fastsbl.dictionary import Dictionary, as_dictionary
from fastsbl.estimators._class_scores import JOINT_SCORES, probabilities
from fastsbl.estimators._progress import progress
from fastsbl.estimators._representations import Representation, batches_of, represent, unit_rows
from fastsbl.sbl.outer import Settings

__all__ = ["Classified", "SparseRepresentationClassifier"]

SCORES = ("evidence", *JOINT_SCORES)
_MOST_PRODUCTS = 3_000
"""Samples whose inner products are kept: with their square, memory grows to 72 MB."""
_FITS_PER_COLUMN = 80
"""One fit pays for the inner products of so many samples, roughly."""
_IN_DOUBT = float(np.log(20.0))
"""Classes so much less likely than the best are not fitted at further noise variances."""


class _RuleAndMethod(str):
    """The name of a rule, which can be called as scikit-learn's method ``score(X, y)``."""

    model: Any

    def __call__(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy of ``predict(X)`` with respect to y."""
        return float(ClassifierMixin.score(self.model, X, y, sample_weight))


class _Score:
    """The parameter ``score``, which would otherwise hide the method of that name."""

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return ClassifierMixin.score
        value = model.__dict__["score"]
        if not isinstance(value, str):
            return value
        both = _RuleAndMethod(value)
        both.model = model
        return both

    def __set__(self, model: Any, value: Any) -> None:
        model.__dict__["score"] = value


@dataclass(frozen=True)
class _Answers:
    """What queries were found to be, one row each."""

    scores: FloatArray  # (M, K)
    lam: FloatArray  # (M,)
    empty: BoolArray  # (M,): no sample explains the query
    nearest: FloatArray  # (M, K): the largest |correlation| with a sample of each class


@dataclass(frozen=True)
class Classified:
    """Everything that `SparseRepresentationClassifier.classify` finds out about queries, one row each.

    Attributes
    ----------
    predicted : array of shape (n_queries,)
        Their classes.
    probability, scores : array of shape (n_queries, n_classes)
        As from ``predict_proba`` and ``scores``.
    undecided : bool array of shape (n_queries,)
        As from ``undecided``.
    """

    predicted: Array
    probability: Array
    scores: FloatArray = field(repr=False)
    undecided: BoolArray


class SparseRepresentationClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify by sparse representation: training samples are the columns of a dictionary, and explain each query.

    There is nothing to train. Samples and queries are scaled to Euclidean norm 1, so that only directions count.
    Each query is written as a sparse combination of training samples by sparse Bayesian learning, and gets the class
    of the samples that explain it.

    Parameters
    ----------
    noise_ratio : float or sequence of float
        Noise variance of a query (scaled to norm 1) relative to the largest ``|phi_i' y|`` over all training
        samples, the paper's lambda / lambda_max. Smaller values use more samples and take longer. Of
        several, "evidence" averages the probabilities of the classes; the other scores and `represent` use the largest.
    score : {"evidence", "abs-sum", "residual"}
        The rule. "evidence": each class explains the query by its own samples alone, and the classes' log evidences
        are compared. The other two look at one fit with the samples of all classes: "abs-sum" adds ``|theta_i|``
        over each class (the paper's rule), "residual" takes the share of the query that each class's part explains.
    method : {"sbl", "lasso"}
        The whole fit, or only its first weighted lasso. For "evidence", a lasso's objective over minus the noise
        variance stands for the log evidence.
    candidates : int or None
        With "evidence", how many classes get a fit of their own: those with the training samples most correlated
        with the query. The others count with the evidence of pure noise, a lower bound. None fits all classes.
        Noise variances below the largest are tried on those within a factor of 20 of the likeliest class.
    init : {"null", "unit"}
        First weights of each fit: those of gamma = 0, or the paper's u = 1.
    positive : bool
        Whether the weights of training samples are at least 0. Faster, and natural for data without a sign, such as
        images.
    screening : str or None
        Safe screening rule; the answer is the same with all of them.
    tol : float
        Accuracy of the outer loop, see `fastsbl.fit_sbl`.
    n_jobs : int, optional
        Queries at a time, in threads: -1 for one per core.
    verbose : int
        Above 0, show a progress bar over the queries (with rich or tqdm, otherwise in the log).

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels seen in `fit`, sorted.
    class_counts_ : int array of shape (n_classes,)
        Training samples of each.
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array of str
        Their names, if X had any.

    Notes
    -----
    A query that nothing explains at this noise variance (`undecided`) gets the class of the training sample most
    correlated with it, in absolute value. A query of zeros has no direction; it gets the most frequent class.
    Training samples of zeros explain nothing.

    Examples
    --------
    >>> from fastsbl import SparseRepresentationClassifier
    >>> from fastsbl.datasets import load_small_digits
    >>> digits = load_small_digits()
    >>> model = SparseRepresentationClassifier(positive=True)
    >>> model = model.fit(digits.train_images.reshape(-1, 64), digits.train_labels)
    >>> queries = digits.test_images[:5].reshape(-1, 64)
    >>> model.predict(queries), digits.test_labels[:5]
    (array([2, 3, 4, 5, 6], dtype=uint8), array([2, 3, 4, 5, 6], dtype=uint8))
    >>> model.represent(queries).shape
    (5, 1437)
    """

    score = _Score()

    def __init__(
        self,
        *,
        noise_ratio: float | Sequence[float] = (0.02, 0.01, 0.005),
        score: str = "evidence",
        method: str = "sbl",
        candidates: int | None = 5,
        init: str = "null",
        positive: bool = False,
        screening: str | None = "holder",
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.noise_ratio = noise_ratio
        self.score = score
        self.method = method
        self.candidates = candidates
        self.init = init
        self.positive = positive
        self.screening = screening
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the training samples, scaled to norm 1.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The training samples. float32 stays float32, sparse stays sparse.
        y : array-like of shape (n_samples,)
            Their classes, of at least two kinds.

        Returns
        -------
        SparseRepresentationClassifier
            Itself.
        """
        self._check_parameters()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"y must hold at least two classes to tell apart, got only one class: {self.classes_[0]}")
        self.class_counts_ = np.bincount(codes)
        self._order = np.argsort(codes, kind="stable")  # by class, so that the samples of a class lie side by side
        self._codes = codes[self._order]
        self._ends = np.concatenate([[0], np.cumsum(self.class_counts_)])
        self._samples = unit_rows(X[self._order])
        self._norms = as_dictionary(self._samples.T).column_norms()
        self._dictionaries: dict[int | None, Dictionary] = {}
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again from the samples."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"_dictionaries": {}} if "_dictionaries" in state else state

    def scores(self, X: Any) -> FloatArray:
        """Score each class for each query, the larger the likelier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features)
            The queries.

        Returns
        -------
        array of shape (n_queries, n_classes)
            In the order of ``classes_``. "evidence": log evidence (up to a constant for a lasso), or the log of the
            average probability for several noise variances. "abs-sum": the paper's prob_k, which is scaled to
            Euclidean norm 1 over the classes and is no probability. "residual": ``1 - ||y - Phi_k theta_k||^2`` for
            the query at norm 1. Undecided queries have equal scores.
        """
        return self._answer(X).scores

    def classify(self, X: Any) -> Classified:
        """Classes, probabilities, scores and doubts, all from the same fits.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features)
            The queries.

        Returns
        -------
        Classified
            What `predict`, `predict_proba`, `scores` and `undecided` return one by one.
        """
        answers = self._answer(X)
        probability = np.empty_like(answers.scores)
        known = ~answers.empty
        probability[known] = probabilities(answers.scores[known], self._rule, answers.lam[known])
        blind = answers.empty & ~answers.nearest.any(axis=1)
        near = answers.empty & ~blind
        probability[near] = answers.nearest[near] / answers.nearest[near].sum(axis=1, keepdims=True)
        probability[blind] = self.class_counts_ / self.class_counts_.sum()
        predicted = np.asarray(self.classes_[probability.argmax(axis=1)])
        return Classified(predicted, probability, answers.scores, answers.empty)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, of shape (n_queries, n_classes), for X of shape (n_queries, n_features).

        "evidence": the posterior of classes that are equally likely beforehand, averaged over the noise variances where
        there are several: they are tried in turn, each with the same say. "residual": the same from the Gaussian
        likelihood of each class's residual. "abs-sum": the sums over the classes relative to their total, since
        `scores` (the paper's prob_k) have Euclidean norm 1 and no total of 1. They rank classes as `scores` does.
        Undecided queries: the largest absolute correlations with samples of each class relative to their total, or how
        frequent the classes are where those are zero.
        """
        return self.classify(X).probability

    def predict(self, X: Any) -> Array:
        """Class of each query, of shape (n_queries,), for X of shape (n_queries, n_features)."""
        return self.classify(X).predicted

    def undecided(self, X: Any) -> BoolArray:
        """Whether no training sample explains a query at this noise variance, of shape (n_queries,).

        Such queries still get a class from `predict`; a study of accuracy should count them as errors.
        """
        return self._answer(X).empty

    def represent(self, X: Any) -> sparse.csr_array:
        """Write queries as sparse combinations of the training samples of all classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_queries, n_features)
            The queries.

        Returns
        -------
        csr_array of shape (n_queries, n_training_samples)
            Weights of the training samples (scaled to norm 1, in the order given to `fit`) that explain each query
            (scaled to norm 1). Rows of undecided queries are empty.
        """
        queries = self._validate(X)
        rows: list[Array] = []
        columns: list[Array] = []
        values: list[Array] = []
        with progress(self.verbose, type(self).__name__, queries.shape[0]) as advance:
            dictionary = self._dictionary()
            for part, targets in batches_of(queries, self._codes.size):
                live, lam, _ = self._noise(dictionary, targets)
                found = self._represent(dictionary, targets[:, live], lam[live], advance)
                for k, one in zip(part.start + np.flatnonzero(live), found, strict=True):
                    rows.append(np.full(one.support.size, k))
                    columns.append(self._order[one.support])
                    values.append(one.coef)
        shape = (queries.shape[0], self._codes.size)
        if not rows:
            return sparse.csr_array(shape)
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return sparse.csr_array(entries, shape=shape)

    def __sklearn_tags__(self) -> Any:
        """Add what this classifier can do to scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of this classifier, as everywhere in scikit-learn."""
        params: dict[str, Any] = super().get_params(deep)
        return params | {"score": self.__dict__["score"]}

    def _check_parameters(self) -> None:
        given: Any = self.noise_ratio
        if isinstance(given, np.ndarray):
            given = given.tolist()
        several = isinstance(given, (list, tuple)) and len(given) > 0
        for ratio in given if several else [given]:
            check_positive_number(ratio, "noise_ratio")
        check_choice(self.__dict__["score"], "score", SCORES)
        check_choice(self.method, "method", ("sbl", "lasso"))
        check_choice(self.init, "init", ("null", "unit"))
        if self.candidates is not None:
            check_whole_number(self.candidates, "candidates")
        Settings(**self._options())

    @property
    def _rule(self) -> str:
        return str(self.__dict__["score"])

    @property
    def _ratios(self) -> list[float]:
        """Noise ratios, the largest first."""
        ratios: list[float] = np.atleast_1d(np.asarray(self.noise_ratio)).tolist()
        return sorted(ratios, reverse=True)

    def _options(self) -> dict[str, Any]:
        names = ("init", "positive", "screening", "tol")
        return {name: getattr(self, name) for name in names}

    def _validate(self, X: Any) -> Any:
        check_is_fitted(self)
        self._check_parameters()
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return unit_rows(X)

    def _dictionary(self, k: int | None = None, fits: int = 0) -> Dictionary:
        """The training samples as columns: all of them, or those of one class.

        For many ``fits`` it holds the inner products of the samples, from then on.
        """
        if k not in self._dictionaries:
            part = slice(None) if k is None else slice(self._ends[k], self._ends[k + 1])
            self._dictionaries[k] = as_dictionary(self._samples[part].T, norms=self._norms[part])
        made = self._dictionaries[k]
        if made.whole_gram is None and made.n_features <= min(_MOST_PRODUCTS, _FITS_PER_COLUMN * fits):
            made = self._dictionaries[k] = made.with_gram()
        return made

    def _noise(self, dictionary: Dictionary, targets: FloatArray) -> tuple[BoolArray, FloatArray, FloatArray]:
        """Which targets correlate with any sample, their noise variances, their largest correlation per class."""
        products = dictionary.correlate(targets)
        sizes = np.maximum(products, 0.0) if self.positive else np.abs(products)
        nearest = np.ascontiguousarray(np.maximum.reduceat(sizes, self._ends[:-1], axis=0).T)
        largest = nearest.max(axis=1)
        live = largest > dictionary.n_samples * dictionary.eps  # below, nothing but rounding
        nearest[~live] = 0.0
        return live, self._ratios[0] * np.where(live, largest, 1.0), nearest

    def _represent(
        self, dictionary: Dictionary, targets: FloatArray, lam: FloatArray, advance: Callable[[str], None] | None
    ) -> list[Representation]:
        if lam.size == 0:
            return []
        return represent(
            dictionary, targets, lam, method=self.method, n_jobs=effective_n_jobs(self.n_jobs),
            advance=None if advance is None else lambda: advance(""), **self._options(),
        )  # fmt: skip

    def _answer(self, X: Any) -> _Answers:
        """Score queries batch by batch."""
        queries = self._validate(X)
        n_classes = self.classes_.size
        fits = 1 if self._rule in JOINT_SCORES else min(self.candidates or n_classes, n_classes)
        score = self._joint_scores if self._rule in JOINT_SCORES else self._class_evidence
        batches = []
        with progress(self.verbose, type(self).__name__, queries.shape[0] * fits) as advance:
            dictionary = self._dictionary()
            for _, targets in batches_of(queries, self._codes.size):
                live, lam, nearest = self._noise(dictionary, targets)
                scores = np.zeros((lam.size, n_classes))
                empty = ~live
                scores[live], empty[live] = score(dictionary, targets[:, live], lam[live], nearest[live], advance)
                batches.append(_Answers(scores, lam, empty, nearest))
        names = ("scores", "lam", "empty", "nearest")
        return _Answers(*(np.concatenate([getattr(batch, name) for batch in batches]) for name in names))

    def _joint_scores(
        self, dictionary: Dictionary, targets: FloatArray, lam: FloatArray, nearest: FloatArray, advance: Any
    ) -> tuple[FloatArray, BoolArray]:
        """Scores read off one fit with the samples of all classes."""
        found = self._represent(dictionary, targets, lam, advance)
        empty = np.array([one.support.size == 0 for one in found], dtype=bool)
        return JOINT_SCORES[self._rule](found, dictionary, targets, self._codes, self.classes_.size), empty

    def _class_evidence(
        self, dictionary: Dictionary, targets: FloatArray, lam: FloatArray, nearest: FloatArray, advance: Any
    ) -> tuple[FloatArray, BoolArray]:
        """Log evidence of each query under the samples of each class alone; of several, the log mean probability."""
        rank = np.argsort(np.argsort(-nearest, axis=1, kind="stable"), axis=1)
        tried = rank < (self.candidates or self.classes_.size)
        scores, empty = self._evidences(targets, lam, tried, advance)
        largest, *others = self._ratios
        if not others:
            return scores, empty
        first = log_softmax(scores, axis=1)
        doubtful = tried & (first >= first.max(axis=1, keepdims=True) - _IN_DOUBT)
        doubtful &= doubtful.sum(axis=1, keepdims=True) > 1
        some = np.flatnonzero(doubtful.any(axis=1))
        share = logsumexp(first[some], axis=1, b=doubtful[some], keepdims=True)
        averages = [first[some]]
        for ratio in others:  # the classes in doubt divide their share of the probability anew
            again, nothing = self._evidences(targets[:, some], ratio / largest * lam[some], doubtful[some], None)
            empty[some] &= nothing
            divided = share + again - logsumexp(again, axis=1, b=doubtful[some], keepdims=True)
            averages.append(np.where(doubtful[some], divided, first[some]))
        first[some] = logsumexp(averages, axis=0) - np.log(len(averages))
        first[empty] = -np.log(self.classes_.size)
        return first, empty

    def _evidences(
        self, targets: FloatArray, lam: FloatArray, tried: BoolArray, advance: Any
    ) -> tuple[FloatArray, BoolArray]:
        """Log evidence at one noise variance for each query; that of pure noise for classes that are not tried."""
        noise = -0.5 * np.einsum("ij,ij->j", targets, targets) / lam
        if self.method == "sbl":
            noise -= 0.5 * targets.shape[0] * np.log(2.0 * np.pi * lam)
        scores = np.repeat(noise[:, None], self.classes_.size, axis=1)
        empty = np.ones(lam.size, dtype=bool)
        for k in range(self.classes_.size):
            rows = np.flatnonzero(tried[:, k])
            found = self._represent(self._dictionary(k, rows.size), targets[:, rows], lam[rows], advance)
            for row, one in zip(rows, found, strict=True):
                if one.support.size:
                    empty[row] = False
                    scores[row, k] = max(one.evidence, noise[row])  # gamma = 0 is a choice every class has
        return scores, empty
