"""
Learning the noise variance
===========================

With more features than samples, the evidence alone never stops asking for less noise: features that imitate
the noise by chance always pay for themselves. Charging for the choice of the features stops it.
"""

# %%
# A problem with a known answer, and plain fits for noise variances over four decades.
import matplotlib.pyplot as plt
import numpy as np

from fastsbl.datasets import make_sparse_regression
from fastsbl.sbl import fit_sbl, sbl_path

problem = make_sparse_regression(100, 1000, n_nonzero=6, design="ar", snr_db=15, rng=0)
phi, y, true_noise = problem.dictionary, problem.y, problem.noise_variance
path = sbl_path(phi, y, np.geomspace(1.0, 1e-4, 13), relative_to="sbl_lambda_max")

# %%
# Now let the supports along such a path compete, each with its own noise variance.
result = fit_sbl(phi, y, lam="learn")
posterior = result.posterior()
print(f"noise variance: learned {result.lam:.3f}, true {true_noise:.3f}")
print(f"features: learned {posterior.support.tolist()}, true {problem.support.tolist()}")
for candidate in result.noise_path:
    print(f"  {candidate.size} features, noise variance {candidate.lam:7.3f}, score {candidate.score:7.1f}")

# %%
# On the left: the loss (minus twice the log evidence) of the plain fits goes on falling far below the true
# variance, and the number of their features rises. On the right: the learned fit, with two standard deviations.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.0), layout="constrained")
variances = [fit.lam for fit in path]
left.plot(variances, [fit.loss for fit in path], "o-", color="#0072b2", ms=4)
for fit in path[::2]:
    left.annotate(
        fit.support.size, (fit.lam, fit.loss), (0, 6), textcoords="offset points", ha="right", color="#0072b2"
    )
left.axvline(true_noise, color="#7a7a7a", ls=":", label="true variance")
left.axvline(result.lam, color="#d55e00", ls="--", label="learned variance")
left.set(xscale="log", xlabel="noise variance", ylabel="loss", title="Plain fits; the numbers count features")
left.legend(frameon=False)

right.axhline(0.0, color="#7a7a7a", lw=0.8)
right.errorbar(
    posterior.support, posterior.mean, 2 * posterior.std, fmt="o", color="#0072b2", ms=4, capsize=3, label="learned"
)
right.plot(problem.support, problem.coef[problem.support], "o", mfc="none", mec="#d55e00", ms=9, label="truth")
right.set(xlabel="feature", ylabel="coefficient", title="Learned fit")
right.legend(frameon=False)
plt.show()
