"""
Systems from input and output
=============================

What a system does to its input, from a record of input and output: first a linear one with echoes, whose impulse
response is sparse, then a nonlinear one, whose equation is to be found among many possible terms.
"""

# %%
# A linear system with echoes
# ---------------------------
# The output is the input, delayed and weighted by an unknown impulse response of 200 taps. The columns of the
# dictionary are the input at each delay. The input is coloured, so that neighbouring delays look alike, and there
# are only twice as many samples as taps: least squares follows the noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import PolynomialFeatures

from fastsbl import SBLRegressor

rng = np.random.default_rng(1)
taps = np.zeros(200)
taps[[12, 13, 14, 60, 61, 130]] = [1.0, 0.8, 0.4, -0.5, -0.3, 0.25]
signal = rng.standard_normal(600)
signal[1:] += 0.6 * signal[:-1]
delayed = np.lib.stride_tricks.sliding_window_view(signal, 200)[:, ::-1]
clean = delayed @ taps
output = clean + 0.3 * clean.std() * rng.standard_normal(clean.size)

model = SBLRegressor(fit_intercept=False).fit(delayed, output)
plain = np.linalg.lstsq(delayed, output)[0]
print("taps found:", model.support_.tolist())
errors = [np.linalg.norm(answer - taps) for answer in (model.coef_, plain)]
print(f"error of the response: {errors[0]:.3f}, least squares {errors[1]:.3f}")
print(f"noise variance: learned {model.noise_variance_:.3f}, true {0.09 * clean.var():.3f}")

figure, (upper, lower) = plt.subplots(2, 1, figsize=(9, 4.5), layout="constrained", sharex=True, sharey=True)
upper.plot(plain, color="#7a7a7a", lw=0.8)
upper.set(title="Least squares", ylabel="response")
spread = 1.645 * np.sqrt(np.diag(model.sigma_))
lower.axhline(0, color="#7a7a7a", lw=0.8)
kept = model.support_
lower.errorbar(kept, model.coef_[kept], spread, fmt="o", color="#0072b2", ms=4, capsize=3, label="learned, 90 %")
used = np.flatnonzero(taps)
lower.plot(used, taps[used], "o", mfc="none", mec="#d55e00", ms=9, label="truth")
lower.set(title="Sparse Bayesian", xlabel="delay in samples", ylabel="response")
lower.legend(frameon=False)
plt.show()

# %%
# A nonlinear system
# ------------------
# The system below remembers two of its outputs and two of its inputs. Candidates are all products of up to three of
# the last four outputs and inputs, 164 terms (a NARX model). Which five of them make up the equation, and with what
# coefficients?


def run(inputs, noise, rng):
    """Feed the system; its disturbance is part of its state."""
    y = np.zeros(inputs.size)
    for t in range(2, inputs.size):
        y[t] = (
            0.6 * y[t - 1] - 0.2 * y[t - 2] + 0.5 * inputs[t - 1] - 0.3 * y[t - 1] * inputs[t - 2]
            - 0.1 * y[t - 1] ** 3 + noise * rng.standard_normal()
        )  # fmt: skip
    return y


def lags(y, inputs, count=4):
    """The last outputs and inputs before each sample."""
    steps = [s[count - k : s.size - k] for s in (y, inputs) for k in range(1, count + 1)]
    return np.column_stack(steps)


inputs = rng.uniform(-2, 2, 500)
y = run(inputs, 0.05, rng)
terms = PolynomialFeatures(3, include_bias=False)
X = terms.fit_transform(lags(y, inputs))
names = terms.get_feature_names_out([f"y[t-{k}]" for k in range(1, 5)] + [f"u[t-{k}]" for k in range(1, 5)])
model = SBLRegressor().fit(X, y[4:])
print(f"{X.shape[1]} candidate terms, {model.support_.size} kept:")
for k, std in zip(model.support_, np.sqrt(np.diag(model.sigma_)), strict=True):
    print(f"  {model.coef_[k]:7.3f} ± {std:.3f}  {names[k]}")
print(f"disturbance: learned {np.sqrt(model.noise_variance_):.3f}, true 0.05")

# %%
# The equation can now be run by itself, on an input it has not seen: each output is computed from outputs that were
# computed before, not from measured ones. This is a harder test than predicting the next sample.
fresh = rng.uniform(-2, 2, 150)
measured = run(fresh, 0.05, rng)
simulated = measured[:4].copy()
for t in range(4, fresh.size):
    past = np.concatenate([simulated[t - 4 : t][::-1], fresh[t - 4 : t][::-1]])
    simulated = np.append(simulated, model.predict(terms.transform(past[None, :])))
print(f"share of the variance explained in free run: {1 - np.var(measured - simulated) / np.var(measured):.3f}")

figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
axes.plot(measured, color="#7a7a7a", lw=3, alpha=0.6, label="measured")
axes.plot(simulated, color="#0072b2", lw=1.2, label="simulated from the equation found")
axes.set(xlabel="sample", ylabel="output")
axes.set_ylim(top=1.9)
axes.legend(frameon=False, ncols=2, loc="upper right")
plt.show()
