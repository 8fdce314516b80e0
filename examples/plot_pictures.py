"""
Pictures of an answer
=====================

Four functions draw what a fit found: coefficients with their uncertainty, a path, what screening rejects, and sources
in an image. Each returns a display in scikit-learn's manner, which holds what it shows, can draw it again into axes of
your own (``display.plot(ax)``), and has ``ax_`` and ``figure_`` to change details.
"""

# %%
# The posterior
# -------------
# The features in the model, the largest first, with two standard deviations to each side. Where the truth is known it
# can be shown beside them. `plot_posterior` takes a result of `fit_sbl` as well as a fitted regressor, and uses the
# names of columns if there are any.
import matplotlib.pyplot as plt
import numpy as np

from fastsbl import SBLRegressorCV, fit_sbl
from fastsbl.datasets import make_sparse_regression
from fastsbl.imaging import denoise_image, locate_sources, make_starfield
from fastsbl.report import plot_path, plot_posterior, plot_screening, plot_sources

problem = make_sparse_regression(100, 1000, n_nonzero=6, design="ar", snr_db=10, rng=1)
phi, y = problem.dictionary, problem.y
display = plot_posterior(fit_sbl(phi, y), truth=problem.coef)

# %%
# A path
# ------
# Coefficients against the noise variance, from few features on the left to many on the right. `plot_path` takes what
# `sbl_path` or `weighted_lasso_path` returns; from a fitted `SBLRegressorCV` it also knows which value was chosen.
model = SBLRegressorCV(ratios=np.geomspace(1, 1e-3, 25)).fit(phi, y)
display = plot_path(model)

# %%
# Screening
# ---------
# How much of a problem each rule proves to be zero before it is solved. Rules that start from an answer (solid lines)
# get the one at the next larger penalty.
display = plot_screening(phi, y)

# %%
# Sources in an image
# -------------------
# Into axes of one's own, as all of them can be.
field = make_starfield((40, 40), 6, snr_db=12.0, rng=5)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 5.0), layout="constrained")
plot_sources(locate_sources(field.image), field.image, truth=field.xy, ax=left)
right.imshow(denoise_image(field.image), cmap="gray")
right.set_title("the same image without its noise")
plt.show()
