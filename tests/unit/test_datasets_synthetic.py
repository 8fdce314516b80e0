"""Simulated problems and corpora have the properties they promise."""

import os

import numpy as np
import pytest
from scipy.optimize import minimize

from fastsbl.datasets import corpus as corpus_module
from fastsbl.datasets import (
    digits_dictionary,
    fetch_bag_of_words,
    load_small_digits,
    make_sparse_regression,
    make_zipf_corpus,
    mnist_dictionary,
)

needs_data = pytest.mark.skipif(
    not os.path.isdir(os.path.join(os.environ.get("FASTSBL_DATA", ""), "nytimes")),
    reason="set FASTSBL_DATA to a folder with nytimes/ to run this",
)


@pytest.mark.parametrize("design", ["gaussian", "ar", "duplicated"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("unit_norm", [False, True])
def test_sparse_regression_is_what_it_says(design, positive, unit_norm):
    problem = make_sparse_regression(
        60, 101, n_nonzero=7, design=design, positive=positive, unit_norm=unit_norm, snr_db=None, rng=0
    )
    assert problem.dictionary.shape == (60, 101)
    assert problem.dictionary.flags.f_contiguous
    np.testing.assert_array_equal(np.flatnonzero(problem.coef), problem.support)
    assert len(problem.support) == 7
    assert np.abs(problem.coef[problem.support]).min() >= 1
    assert (problem.coef >= 0).all() == positive
    np.testing.assert_allclose(problem.y, problem.dictionary @ problem.coef)
    norms = np.linalg.norm(problem.dictionary, axis=0)
    assert np.allclose(norms, 1) == unit_norm


@pytest.mark.parametrize("snr_db", [-3.0, 20.0])
def test_the_noise_has_the_promised_level(snr_db):
    problem = make_sparse_regression(20_000, 10, n_nonzero=5, snr_db=snr_db, rng=1)
    signal = problem.dictionary @ problem.coef
    noise = problem.y - signal
    assert 10 * np.log10((signal @ signal) / (noise @ noise)) == pytest.approx(snr_db, abs=0.15)
    assert noise.var() == pytest.approx(problem.noise_variance, rel=0.05)


def test_neighbouring_columns_correlate_as_asked():
    problem = make_sparse_regression(20_000, 6, n_nonzero=1, design="ar", correlation=-0.8, rng=2)
    distance = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(np.corrcoef(problem.dictionary.T), (-0.8) ** distance, atol=0.03)


def test_duplicated_columns_are_exact_copies():
    problem = make_sparse_regression(30, 21, n_nonzero=11, design="duplicated", unit_norm=True, rng=3)
    np.testing.assert_array_equal(problem.dictionary[:, 11:], problem.dictionary[:, :10])
    assert problem.support.max() < 11


def test_a_seed_fixes_the_problem():
    one, two = (make_sparse_regression(rng=np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one.y, two.y)
    assert not np.array_equal(one.y, make_sparse_regression(rng=6).y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_samples": 0}, "n_samples: expected a whole number >= 1, got 0"),
        ({"n_features": 2.5}, "n_features: expected a whole number >= 1, got 2.5"),
        ({"n_nonzero": 301}, "n_nonzero: expected a whole number from 0 to 300, got 301"),
        (
            {"n_nonzero": 151, "design": "duplicated"},
            "n_nonzero: expected a whole number from 0 to 150, got 151",
        ),
        ({"design": "fancy"}, r"design: expected one of \('gaussian', 'ar', 'duplicated'\), got 'fancy'"),
        ({"correlation": 1.0}, "correlation: expected a number between -1 and 1"),
        ({"snr_db": np.nan}, "snr_db: expected a finite number"),
    ],
)
def test_sparse_regression_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        make_sparse_regression(**options)


def test_digits_dictionary():
    matrix, labels = digits_dictionary(per_class=12, seed=4)
    assert matrix.shape == (64, 120)
    assert matrix.flags.f_contiguous
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(labels, np.repeat(np.arange(10), 12))
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1)
    digits = load_small_digits()
    generator = np.random.default_rng(4)
    chosen = generator.choice(np.flatnonzero(digits.train_labels == 0), 12, replace=False)
    image = digits.train_images[chosen[3]].ravel() / 1.0
    np.testing.assert_allclose(matrix[:, 3], image / np.linalg.norm(image))


def test_mnist_dictionary_refuses():
    digits = load_small_digits()
    with pytest.raises(ValueError, match=r"per_class: expected at most \d+, .*digit 0, got 1000"):
        mnist_dictionary(digits)
    with pytest.raises(ValueError, match="per_class: expected a whole number >= 1, got 0"):
        mnist_dictionary(digits, per_class=0)
    digits.train_images[:] = 0
    with pytest.raises(ValueError, match=r"training image \d+ is blank"):
        mnist_dictionary(digits, per_class=3)


def test_zipf_corpus_shape_and_order():
    corpus = make_zipf_corpus(n_words=200, n_documents=4_500, rng=0)  # three pieces
    assert corpus.counts.shape == (4_500, 200)
    assert corpus.counts.format == "csr"
    assert corpus.counts.dtype == np.int32
    assert corpus.counts.data.min() >= 1
    assert len(set(corpus.vocabulary)) == 200
    lengths = corpus.counts.sum(axis=1)
    assert lengths.min() >= 1
    logs = np.log(lengths)
    assert logs.mean() == pytest.approx(corpus_module.MEAN_LOG_LENGTH, abs=0.05)
    assert logs.std() == pytest.approx(corpus_module.STD_LOG_LENGTH, abs=0.05)
    again = make_zipf_corpus(n_words=200, n_documents=4_500, rng=np.random.default_rng(0))
    assert abs(corpus.counts - again.counts).max() == 0


@pytest.mark.parametrize("concentration", [None, 50.0])
def test_word_shares_follow_the_law(concentration):
    """Bursts make single documents repeat themselves, but leave the shares of the corpus as they are."""
    corpus = make_zipf_corpus(100, 20_000, exponent=1.0, shift=0.0, concentration=concentration, rng=1)
    totals = corpus.counts.sum(axis=0)
    law = 1 / np.arange(1, 101)
    law /= law.sum()
    lengths = corpus.counts.sum(axis=1).astype(float)
    pairs = 0.0 if concentration is None else (lengths * (lengths - 1)).sum() / (concentration + 1)
    deviation = np.sqrt(law * (1 - law) * (lengths.sum() + pairs))  # of an urn's total count
    assert (np.abs(totals - lengths.sum() * law) < 4.5 * deviation).all()


def test_the_urn_matches_its_theory():
    """A document of m words holds sum over k < m of c / (c + k) fresh ones on average."""
    c, m, n_documents = 30.0, 100, 3_000
    positions = np.tile(np.arange(m), n_documents)
    origins = corpus_module._origins(np.random.default_rng(2), positions, c)
    assert (origins <= np.arange(origins.size)).all()
    assert (origins // m == np.arange(origins.size) // m).all()  # never from another document
    fresh = (origins == np.arange(origins.size)).sum() / n_documents
    expected = (c / (c + np.arange(m))).sum()
    assert fresh == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_words": 0}, "n_words: expected a whole number >= 1, got 0"),
        ({"n_documents": -5}, "n_documents: expected a whole number >= 1, got -5"),
        ({"shift": -1.0}, "shift: expected a finite number >= 0, got -1.0"),
        ({"std_log_length": np.inf}, "std_log_length: expected a finite number >= 0, got inf"),
        ({"exponent": np.nan}, "exponent: expected a finite number, got nan"),
        ({"concentration": 0.0}, "concentration: expected a number > 0 or None, got 0.0"),
    ],
)
def test_zipf_corpus_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        make_zipf_corpus(**options)


@needs_data
def test_the_defaults_are_the_fit_to_the_real_counts(monkeypatch, tmp_path):
    monkeypatch.setenv("FASTSBL_CACHE", str(tmp_path))
    real = fetch_bag_of_words("nyt8447").counts
    logs = np.log(real.sum(axis=1))
    assert logs.mean() == pytest.approx(corpus_module.MEAN_LOG_LENGTH, abs=1e-3)
    assert logs.std() == pytest.approx(corpus_module.STD_LOG_LENGTH, abs=1e-3)

    totals = np.sort(real.sum(axis=0))[::-1]
    rank = np.arange(1, len(totals) + 1)

    def minus_log_likelihood(parameters):
        log_shift, exponent = parameters
        share = (rank + np.exp(log_shift)) ** -exponent
        return -(totals * np.log(share / share.sum())).sum() / totals.sum()

    best = minimize(minus_log_likelihood, [5.0, 1.2], method="Nelder-Mead").x
    assert np.exp(best[0]) == pytest.approx(corpus_module.SHIFT, rel=0.01)
    assert best[1] == pytest.approx(corpus_module.EXPONENT, rel=0.01)

    simulated = make_zipf_corpus(real.shape[1], real.shape[0], rng=0).counts
    assert simulated.nnz == pytest.approx(real.nnz, rel=0.03)
    assert simulated.sum() == pytest.approx(real.sum(), rel=0.06)
