"""
Readings whose error is only guessed
====================================

**How large are the errors of the readings really, and what were the true values?**

In a titration the volume of base is read off a burette, and a pH meter gives the pH. Somebody says that the volumes are
good to 0.2 mL, "or so". The pH is good to 0.1. Here the true volumes are known, because they are simulated: the errors
are twice as large as was said.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from eiv import EiVRegressor, estimated

random = np.random.default_rng(1)
volume = random.uniform(4, 16, 160)  # mL, which nobody sees


def ph(volume):
    return 7 + 3 * np.tanh((volume - 10) / 1.5)


X = (volume + 0.4 * random.standard_normal(160))[:, None]
y = ph(volume) + 0.1 * random.standard_normal(160)

# %%
# "Or so" is said in degrees of freedom: 4 of them are a standard deviation known to about a third. The fit then learns
# the size of the errors from how the labels scatter about the curve, where it is steep and where it is flat.

model = EiVRegressor(estimated(0.2, dof=4), network="cosine", hidden_units=64, random_state=0).fit(X, y)
size = model.x_err_scale_
print(*size.words(["volume"]), sep="\n")

# %%
# The true volumes follow from the reading and the pH together. Where the curve is steep, the pH says where on it a row
# lies; where it is flat, the pH says nothing, and the reading is all there is.

readings = model.true_inputs(X)
both = model.true_inputs(X, y)
low, high = both.interval(0.95)
inside = np.mean((low[:, 0] <= volume) & (volume <= high[:, 0]))
for name, found in {
    "reading": X[:, 0],
    "from the reading": readings.mean[:, 0],
    "with the pH": both.mean[:, 0],
}.items():
    print(f"{name}: off by {np.sqrt(np.mean((found - volume) ** 2)):.2f} mL (root mean square)")
print(f"{100 * inside:.0f} % of the true volumes lie in their 95 % intervals")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
error = np.linspace(0.05, 0.8, 300)  # mL
for label, centre, width, colour in (
    ("as stated", 0.2, size.prior_std[0], "0.5"),
    ("learned", 0.2 * size.factor[0], size.std[0], "tab:red"),
):
    left.plot(error, norm.pdf(np.log(error), np.log(centre), width) / error, color=colour, label=label)
left.axvline(0.4, color="black", linewidth=1, label="truth")
left.set(xlabel="error of a volume, mL", ylabel="density", ylim=(0, None))
left.legend(fontsize=8)
grid = np.linspace(3, 17, 200)
right.plot(grid, ph(grid), color="black", linewidth=1, label="truth")
right.plot(X[:, 0], y, "x", color="0.6", markersize=4, label="reading")
right.errorbar(
    both.mean[:, 0], y, xerr=both.std[:, 0], fmt=".", color="tab:red", markersize=4, linewidth=0.8, label="true input"
)
right.set(xlabel="volume, mL", ylabel="pH")
right.legend(fontsize=8)
plt.show()

# %%
# **What it says.** The stated size was too small, and the fit finds that. On the steep part of the curve the pH pulls
# the readings back to it, with error bars far smaller than those of the burette. At either end the curve is flat, and
# the error bars stay as wide as the readings leave them.
