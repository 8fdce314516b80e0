"""
A crowded image, and how far to trust the catalogue
===================================================

Four sources in 28 x 28 pixels, often on top of each other: the setting of the paper. Widths, noise and background are
not known. We look for the sources of many such images and compare errors with what the catalogue says about them.
"""

# %%
# Forty images at a signal-to-noise ratio of 10 dB, each searched by itself.
import matplotlib.pyplot as plt
import numpy as np

from fastsbl.imaging import SourceFlag, locate_sources, make_starfield, match_sources

fields = [make_starfield(snr_db=10.0, rng=seed) for seed in range(40)]
catalogs = [locate_sources(field.image) for field in fields]

# %%
# Each source found is matched with at most one true source, within 1.5 pixels. A pull is an error over its standard
# error; flags tell which sources overlap with another one that was found.
pulls, blended, n_found, n_true = [], [], 0, 0
for field, catalog in zip(fields, catalogs, strict=True):
    match = match_sources(catalog.xy, field.xy, tolerance=1.5)
    found, true = match.pairs.T
    table = catalog.table[found]
    pulls.append((np.asarray(table["x_fit"]) - field.x[true]) / np.asarray(table["x_err"]))
    blended.append((np.asarray(table["flags"]) & SourceFlag.BLENDED) != 0)
    n_found += match.n_matched
    n_true += match.n_true
pulls, blended = np.concatenate(pulls), np.concatenate(blended)
print(f"{n_found} of {n_true} sources found, {sum(map(len, catalogs)) - n_found} too many")

# %%
# Pulls of sources that stand alone follow the normal distribution. A few lie far out: two true sources that were
# taken for one. The image does not show that there are two, and no standard error can know.
grid = np.linspace(-5, 5, 200)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
worst = int(np.argmax([catalog.table["group_id"].max() != len(catalog) for catalog in catalogs]))
left.imshow(fields[worst].image, origin="lower", cmap="gray")
left.plot(fields[worst].x, fields[worst].y, "o", ms=12, mfc="none", mec="lime", label="true")
left.plot(*catalogs[worst].xy.T, "+", ms=9, mew=2, color="tomato", label="found")
left.legend(loc="lower right")
left.set_title("one of the images")
for chosen, label in ((~blended, "alone"), (blended, "blended")):
    right.hist(np.clip(pulls[chosen], -5, 5), bins=25, range=(-5, 5), density=True, alpha=0.55, label=label)
right.plot(grid, np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi), color="black", lw=1)
right.set_xlabel("(found x - true x) / standard error")
right.legend()
plt.show()
