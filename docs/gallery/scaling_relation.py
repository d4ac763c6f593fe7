"""
A scaling relation with asymmetric errors and upper limits
==========================================================

**What is the relation between two quantities of a catalogue, if errors of x are written as +0.5 −0.2, and some values
only as "below 0.05"?**

A catalogue lists the logarithm of a mass, x, and of a luminosity, y, of 300 objects. Errors of the mass are asymmetric,
and differ from row to row. Of the lightest objects there is only an upper limit of the mass. The relation is not a
straight line: it becomes steeper about x = 1. (The catalogue is simulated.)
"""

import matplotlib.pyplot as plt
import numpy as np

import eiv

random = np.random.default_rng(4)
n = 300


def relation(mass):
    return 0.8 * mass + 0.6 * np.logaddexp(0, 4 * (mass - 1)) / 4


mass = random.normal(0.9, 0.8, n)
minus, plus = random.uniform(0.05, 0.1, n), random.uniform(0.15, 0.4, n)
above = random.random(n) < plus / (minus + plus)  # whether the true value lies above its reading
step = np.abs(random.standard_normal(n))
x = np.where(above, mass - plus * step, mass + minus * step)
y = relation(mass) + 0.1 * random.standard_normal(n)
limits = np.where(x < 0.2, x + 2 * plus, np.nan)  # two standard deviations above a reading
x = np.where(x < 0.2, np.nan, x)
print(f"{np.isfinite(limits).sum()} of {n} masses are upper limits")

# %%
# The errors as the catalogue has them: two sides, and a limit where there is no reading. No x is below −2.

law = eiv.censored(eiv.split_normal(minus=minus, plus=plus), below=limits, low=-2)
model = eiv.EiVRegressor(random_state=0).fit(x[:, None], y, X_err=[law])

# %%
# For comparison what is often done: the mean of the two errors, and rows with a limit left out.

known = np.isfinite(x)
usual = eiv.EiVRegressor(random_state=0).fit(x[known, None], y[known], X_err=(minus + plus)[known, None] / 2)

grid = np.linspace(-0.5, 2.3, 80)[:, None]
read = grid[:, 0] > 0.2  # where there are readings, not limits alone
curves = {}
for name, fitted in {"as stated": model, "mean error, no limits": usual}.items():
    curves[name] = fitted.predict_distribution(grid, X_err=0)
    off = (curves[name].mean - relation(grid[:, 0]))[read]
    print(f"{name}: above 0.2 the curve is off by {np.sqrt(np.mean(off**2)):.3f}, on average by {off.mean():+.3f}")

# %%
figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
bars = np.stack([minus, plus])[:, known]
axes.errorbar(x[known], y[known], xerr=bars, fmt=".", color="0.75", elinewidth=0.6, markersize=4, label="readings")
axes.plot(limits, y, marker="$\\leftarrow$", color="0.5", linestyle="", markersize=9, label="upper limits")
axes.plot(grid[:, 0], relation(grid[:, 0]), "k--", label="truth")
for (name, curve), colour in zip(curves.items(), ("tab:red", "tab:blue"), strict=True):
    axes.plot(grid[:, 0], curve.mean, color=colour, label=name)
    axes.fill_between(grid[:, 0], *curve.interval(0.95), color=colour, alpha=0.2)
axes.set(xlabel="logarithm of the mass", ylabel="logarithm of the luminosity")
axes.legend(fontsize=9)
plt.show()

# %%
# **What it says.** Most true masses lie above their readings, because the upper error is the larger one. A fit with the
# mean of the two errors does not know this: its curve lies to the left of the truth, that is too high, by more than
# its band allows. With the errors as stated the curve follows the truth where there are readings. Below 0.2 there are
# limits alone. They say that light objects are not luminous, and little more: the red band becomes wide. The blue curve
# goes on as a line there, which happens to be closer to the truth here.
