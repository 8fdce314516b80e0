"""Charges for choosing features, and what chance takes from the noise, against simulation."""

import numpy as np
import pytest
from scipy.special import gammaln

from fastsbl.sbl.chance import Chance, distinct_rows


def log_ways(n, s):
    return gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)


@pytest.mark.parametrize("size", [0, 1, 5, 20])
def test_few_of_many_features_pay_the_prior(size):
    charge = Chance(5000, 300).charge(size, 300)
    assert charge == pytest.approx(2 * log_ways(5000, size) * 300 / (298 - size), rel=1e-9)


def test_many_features_pay_what_chance_would_gain():
    chance = Chance(200, 200)
    charges = np.array([chance.charge(size, 1e12) for size in range(201)])
    assert (np.diff(charges) >= 0).all()
    np.testing.assert_allclose(np.diff(charges)[63:], 0.5)  # a third of all squares of noise are above 1
    rng = np.random.default_rng(0)
    squares = rng.standard_normal((4000, 200)) ** 2
    gain = np.where(squares > 1, squares - 1 - np.log(squares), 0).sum(axis=1).mean()
    assert charges[63] - 20 < 3 * gain < charges[63] + 20  # the first few pay the smaller prior
    assert charges[63] < 0.7 * 2 * log_ways(200, 63)


def test_charge_grows_without_limit_as_the_noise_runs_out_of_samples():
    chance = Chance(1000, 50)
    assert chance.charge(49, 50) > chance.charge(30, 50) > 2 * log_ways(1000, 30)


@pytest.mark.parametrize(("n_values", "is_complex"), [(1, False), (4, False), (1, True), (3, True)])
@pytest.mark.parametrize("threshold", [1.2, 2.5])
def test_hidden_noise_is_what_chosen_noise_took_away(n_values, is_complex, threshold):
    """Of 300 features of noise those above a threshold are taken: their squares, less one each, are hidden."""
    rng = np.random.default_rng(1)
    parts = rng.standard_normal((2, 2000, 300, n_values))
    powers = (0.5 * (parts**2).sum(axis=0) if is_complex else parts[0] ** 2).mean(axis=2)
    chosen = powers > threshold
    truth = n_values * np.where(chosen, powers - 1, 0).sum(axis=1).mean()
    size = round(chosen.sum(axis=1).mean())
    assert size >= 5
    chance = Chance(300, 300, n_values, is_complex=is_complex)
    assert chance.hidden(size, threshold) == pytest.approx(truth, rel=0.05)


def test_features_that_stand_out_hide_nothing():
    chance = Chance(300, 100)
    assert chance.hidden(5, 60.0) < 1e-9
    assert chance.hidden(5, 12.0) < 5.0
    assert chance.hidden(5, 2.0) < 5 * 10.0  # never more than the largest squares of so many features


def test_repeated_and_weighted_rows_count_once():
    rng = np.random.default_rng(2)
    rows, y = rng.standard_normal((3, 40)), rng.standard_normal(40)
    rows[:, 5], y[5] = 0.0, 0.0  # a row that says nothing
    again = rng.integers(1, 4, 40)
    repeated = np.repeat(rows, again, axis=1), np.repeat(y, again)
    roots = np.sqrt(again)
    assert distinct_rows(rows, y) == distinct_rows(*repeated) == distinct_rows(rows * roots, y * roots) == 39
    assert distinct_rows(rows[:0], y) <= 1  # of the target alone only its sign is left
    assert distinct_rows(rows * 1j, y) == 39
    assert distinct_rows(rows, np.column_stack([y, y])) == 39
