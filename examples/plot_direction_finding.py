"""
Direction finding with an array of sensors
==========================================

Thirty sensors in a line, half a wavelength apart, record three plane waves. Two of them come from directions only
4 degrees apart, about the width of the array's beam. From a single snapshot the conventional beamformer and MUSIC show
one broad peak there, or two, as the phases fall. Sparse Bayesian learning, with one complex coefficient per direction,
separates them, from a single snapshot as from twenty.
"""

# %%
# The dictionary holds the array's response to each direction of a grid. All columns have the same norm.
import matplotlib.pyplot as plt
import numpy as np

from fastsbl.sbl import fit_sbl

n_sensors = 30
grid = np.arange(-90.0, 90.0, 0.5)


def response(degrees):
    """Phase of a plane wave at each sensor."""
    positions = 0.5 * np.arange(n_sensors)[:, None]  # in wavelengths
    return np.exp(2j * np.pi * positions * np.sin(np.deg2rad(degrees)))


phi = response(grid)

# %%
# Sources of unit power at -20, 10 and 14 degrees, each with its own random phase at each snapshot, and noise 10 dB
# below the power of each source. A snapshot is one vector of 30 complex numbers; twenty of them form the columns of Y.
truth = np.array([-20.0, 10.0, 14.0])
noise_variance = 0.1
rng = np.random.default_rng(3)


def record(n_snapshots):
    """Draw what the sensors see."""
    phases = np.exp(2j * np.pi * rng.random((truth.size, n_snapshots)))
    noise = rng.standard_normal((n_sensors, n_snapshots)) + 1j * rng.standard_normal((n_sensors, n_snapshots))
    return response(truth) @ phases + np.sqrt(noise_variance / 2) * noise


# %%
# The conventional beamformer correlates the snapshots with each direction. MUSIC needs the covariance of many
# snapshots, and the number of sources; with one snapshot its covariance has rank 1, and it must fail.
def beamformer(Y):
    """Power seen in each direction."""
    return np.mean(np.abs(phi.conj().T @ Y) ** 2, axis=1) / n_sensors**2


def music(Y, n_sources):
    """MUSIC's pseudo-spectrum, told the number of sources; its height has no unit."""
    covariance = Y @ Y.conj().T / Y.shape[1]
    noise_space = np.linalg.eigh(covariance)[1][:, : n_sensors - n_sources]
    return 1.0 / np.sum(np.abs(noise_space.conj().T @ phi) ** 2, axis=0)


def decibels(power):
    """Relative to the largest."""
    return 10 * np.log10(np.maximum(power / power.max(), 1e-6))


# %%
# `fit_sbl` is told neither the number of sources nor the noise variance. Several snapshots share one support: each
# direction has one prior variance for all of them.
figure, rows = plt.subplots(2, 2, figsize=(9, 5.6), width_ratios=(2, 1), sharey=True, layout="constrained")
for axes, n_snapshots in zip(rows, (1, 20), strict=True):
    Y = record(n_snapshots)
    result = fit_sbl(phi, Y)
    found = result.support
    power = np.mean(np.abs(result.coef) ** 2, axis=1)
    print(f"{n_snapshots:2d} snapshots: {grid[found]} degrees, noise variance {result.lam:.3f}")
    for axis in axes:
        for direction in truth:
            axis.axvline(direction, color="0.82", lw=5, zorder=0)
        axis.plot(grid, decibels(beamformer(Y)), color="0.45", lw=1.2, label="beamformer")
        axis.plot(grid, decibels(music(Y, truth.size)), color="#e69138", lw=1.2, label="MUSIC, told 3 sources")
        heights = decibels(power)[found]
        axis.vlines(grid[found], -45, heights, color="#0b5394", lw=1.8)
        axis.plot(grid[found], heights, "o", color="#0b5394", ms=5, label="sparse Bayesian")
        axis.set(ylim=(-45, 3))
        axis.grid(alpha=0.25, lw=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(xlim=(-90, 90), ylabel=f"{n_snapshots} snapshot{'s' * (n_snapshots > 1)}\npower, dB below the largest")
    axes[1].set(xlim=(4, 20))
figure.legend(*rows[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
rows[0, 1].set_title("the two that are 4° apart", fontsize=10)
rows[0, 0].set_title("all directions (grey: the truth)", fontsize=10)
for axis in rows[1]:
    axis.set_xlabel("direction, degrees")


# %%
# One draw proves little. Here are 25: in how many of them does each method have its three highest peaks within a degree
# of the three sources? (For sparse Bayesian learning the peaks are its support, whatever its size.)
def highest_peaks(power):
    """The directions of the three highest local maxima."""
    places = 1 + np.flatnonzero((power[1:-1] > power[:-2]) & (power[1:-1] >= power[2:]))
    return grid[places[np.argsort(-power[places])[:3]]]


for n_snapshots in (1, 20):
    right = dict.fromkeys(("beamformer", "MUSIC", "sparse Bayesian"), 0)
    for seed in range(25):
        rng = np.random.default_rng(seed)
        Y = record(n_snapshots)
        found = (highest_peaks(beamformer(Y)), highest_peaks(music(Y, 3)), grid[fit_sbl(phi, Y).support])
        for name, directions in zip(right, found, strict=True):
            right[name] += all(np.min(np.abs(directions - t), initial=np.inf) <= 1.0 for t in truth)
    print(f"{n_snapshots:2d} snapshots: {right}")
