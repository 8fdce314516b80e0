"""A simulated corpus with the statistics of real news text."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from .bag_of_words import BagOfWords

DOCUMENTS_PER_PIECE = 2_000

# Maximum-likelihood fits to the real New York Times counts "nyt8447" (8,447 documents x 3,012 words):
# word shares proportional to (rank + SHIFT)^-EXPONENT; logarithm of the document length (total count) normal.
EXPONENT = 1.246
SHIFT = 236.0
MEAN_LOG_LENGTH = 4.685
STD_LOG_LENGTH = 0.813
# Chosen so that, over 3,012 words, documents have as many distinct words as the real ones (114 on average).
CONCENTRATION = 500.0


def make_zipf_corpus(
    n_words: int = 5_000,
    n_documents: int = 50_000,
    *,
    exponent: float = EXPONENT,
    shift: float = SHIFT,
    mean_log_length: float = MEAN_LOG_LENGTH,
    std_log_length: float = STD_LOG_LENGTH,
    concentration: float | None = CONCENTRATION,
    rng: np.random.Generator | int | None = None,
) -> BagOfWords:
    """Simulate word counts with Zipf frequencies, log-normal document lengths and words that recur.

    The word of rank r has the frequency (r + shift)^-exponent up to a constant (Zipf's law as Mandelbrot
    shifted it; shift=0 is the plain law). A document of m words is drawn from these frequencies by a Polya
    urn: its word k + 1 repeats one of the k words before it with probability k / (concentration + k). The
    defaults are fitted to 8,447 real New York Times documents over 3,012 words.

    Parameters
    ----------
    n_words : int, default=5000
        Size of the vocabulary. Columns are sorted by frequency, most frequent first.
    n_documents : int, default=50000
        Number of documents.
    exponent, shift : float
        The law of the word frequencies.
    mean_log_length, std_log_length : float
        Mean and standard deviation of the logarithm of the document length.
    concentration : float or None
        How freely a document mixes words: small means bursty; None means independent words.
    rng : numpy Generator or int, optional
        Source of randomness, or a seed for one. The corpus depends on nothing else.

    Returns
    -------
    BagOfWords
        ``counts``, CSR of int32, shape (n_documents, n_words), and an invented ``vocabulary``, shape
        (n_words,).

    Examples
    --------
    >>> from fastsbl.datasets import make_zipf_corpus
    >>> corpus = make_zipf_corpus(n_words=300, n_documents=500, rng=0)
    >>> corpus.counts.shape
    (500, 300)
    >>> totals = corpus.counts.sum(axis=0)
    >>> bool(totals[:30].sum() > totals[-30:].sum())
    True
    """
    _check_sizes(n_words=n_words, n_documents=n_documents)
    _check_numbers(shift=shift, std_log_length=std_log_length)
    for name, value in (("exponent", exponent), ("mean_log_length", mean_log_length)):
        if not math.isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value!r}")
    if concentration is not None and not concentration > 0:
        raise ValueError(f"concentration: expected a number > 0 or None, got {concentration!r}")
    generator = np.random.default_rng(rng)
    share = (np.arange(1, n_words + 1) + float(shift)) ** -float(exponent)
    cumulative = np.cumsum(share)
    cumulative /= cumulative[-1]
    pieces = []
    for start in range(0, n_documents, DOCUMENTS_PER_PIECE):
        n_piece = min(DOCUMENTS_PER_PIECE, n_documents - start)
        draws = generator.lognormal(mean_log_length, std_log_length, n_piece)
        lengths = np.maximum(1, np.rint(draws)).astype(np.int64)
        pieces.append(_draw_documents(generator, lengths, cumulative, concentration))
    width = max(4, len(str(n_words)))
    vocabulary = np.array([f"word{rank:0{width}d}" for rank in range(1, n_words + 1)])
    return BagOfWords(csr_array(vstack(pieces, format="csr", dtype=np.int32)), vocabulary)


def _draw_documents(
    generator: np.random.Generator,
    lengths: NDArray[np.int64],
    cumulative: NDArray[np.float64],
    concentration: float | None,
) -> csr_array:
    n_tokens = int(lengths.sum())
    starts = np.cumsum(lengths) - lengths
    tokens = np.searchsorted(cumulative, generator.random(n_tokens), side="right").astype(np.int32)
    if concentration is not None:
        tokens = tokens[_origins(generator, np.arange(n_tokens) - np.repeat(starts, lengths), concentration)]
    documents = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    ones = np.ones(n_tokens, np.int32)
    counts = coo_array((ones, (documents, tokens)), shape=(len(lengths), len(cumulative))).tocsr()
    counts.sum_duplicates()
    return counts


def _origins(generator: np.random.Generator, positions: NDArray[np.int64], concentration: float) -> NDArray[np.int64]:
    """Return, for every token, the token whose fresh draw it repeats (itself when it is fresh).

    ``positions`` counts the tokens before it in its document. Repeats point to any earlier token of the
    document; following the pointers leads back to a fresh one, in logarithmically many rounds.
    """
    tokens = np.arange(len(positions))
    repeats = generator.random(len(positions)) * (concentration + positions) < positions
    back = np.floor(generator.random(len(positions)) * positions).astype(np.int64) + 1
    origin = np.where(repeats, tokens - np.minimum(back, positions), tokens)
    while True:
        further = origin[origin]
        if np.array_equal(further, origin):
            return origin
        origin = further


def _check_sizes(**sizes: int) -> None:
    for name, value in sizes.items():
        if not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name}: expected a whole number >= 1, got {value!r}")


def _check_numbers(**numbers: float) -> None:
    for name, value in numbers.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name}: expected a finite number >= 0, got {value!r}")
