"""
A calibration curve with repeats
================================

**What is the error of a reading, what amount does a reading stand for, and is it worth reading each sample three
times?**

An instrument answers to an amount c with a reading that saturates: the more there is, the flatter the answer. Eighty
standards of known amount were read three times each. New samples are only read.
"""

import matplotlib.pyplot as plt
import numpy as np

from eiv import EiVRegressor, errors_from_repeats

random = np.random.default_rng(1)
amount = np.sort(random.uniform(0.5, 10, 80))  # mg/l, the standards
signal = 10 * amount / (4 + amount)  # what an ideal instrument would read
readings = signal[:, None] + 0.15 * random.standard_normal((80, 3))  # three readings of each
prepared = amount * (1 + 0.01 * random.standard_normal(80))  # the standards are made to one per cent

# %%
# Repeats of the same standard differ by the error of a reading alone. ``errors_from_repeats`` finds it, and averages
# the repeats.

repeats = errors_from_repeats(readings.reshape(-1, 1), groups=np.repeat(np.arange(80), 3))
print(f"error of one reading: {repeats.x_err[0]:.3f} ± {repeats.uncertainty[0]:.3f} (truth 0.150)")
print(f"error of an average of three: {repeats.X_err[0, 0]:.3f}")

# %%
# The amount is fitted as a function of the reading, with the error of the averages. The standards were prepared to one
# per cent, which is known too (``y_err``).

model = EiVRegressor(random_state=0).fit(repeats.X, prepared, X_err=repeats.X_err, y_err=0.01 * prepared)

grid = np.linspace(1.5, 7.0, 60)[:, None]
once = model.predict_distribution(grid, X_err=repeats.x_err[0])
thrice = model.predict_distribution(grid, X_err=repeats.X_err[0, 0])
for reading in (2.0, 4.0, 6.0):
    at = np.argmin(np.abs(grid[:, 0] - reading))
    print(f"reading {reading}: {once.mean[at]:.2f} ± {once.std[at]:.2f} mg/l, read three times ± {thrice.std[at]:.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.errorbar(
    repeats.X[:, 0], prepared, xerr=repeats.X_err[:, 0], fmt=".", color="0.6", elinewidth=0.7, label="standards"
)
curve = model.predict_distribution(grid, X_err=0)
left.fill_between(grid[:, 0], *curve.interval(0.95), color="tab:red", alpha=0.3)
left.plot(grid[:, 0], curve.mean, color="tab:red", label="fitted curve, 95 %")
left.plot(signal, amount, "k--", label="truth")
left.set(xlabel="reading", ylabel="amount, mg/l")
left.legend()
right.plot(grid[:, 0], once.std, color="tab:red", label="one reading")
right.plot(grid[:, 0], thrice.std, "--", color="tab:red", label="average of three")
right.plot(grid[:, 0], thrice.epistemic, ":", color="0.4", label="the curve itself (epistemic)")
right.set(xlabel="reading", ylabel="uncertainty of the amount, mg/l")
right.legend()
plt.show()

# %%
# **What it says.** The curve is steep at its upper end, where the instrument saturates. There the same error of a
# reading means a several times larger error of the amount. Reading three times takes away about four tenths of it, as
# an average of three should (one divided by the root of three is 0.58). The dotted line is what more standards would
# improve. It is small: what is left can only be improved by better readings.
