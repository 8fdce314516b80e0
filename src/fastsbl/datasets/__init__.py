"""Data for studies, examples and tests: loaders for real data sets, and simulated ones."""

from .bag_of_words import BagOfWords, fetch_bag_of_words
from .corpus import make_zipf_corpus
from .mnist import DigitImages, fetch_mnist, read_idx
from .synthetic import (
    LabelledDictionary,
    SparseRegression,
    choose_per_class,
    digits_dictionary,
    load_small_digits,
    make_sparse_regression,
    mnist_dictionary,
)

__all__ = [
    "BagOfWords",
    "DigitImages",
    "LabelledDictionary",
    "SparseRegression",
    "choose_per_class",
    "digits_dictionary",
    "fetch_bag_of_words",
    "fetch_mnist",
    "load_small_digits",
    "make_sparse_regression",
    "make_zipf_corpus",
    "mnist_dictionary",
    "read_idx",
]
