"""
Which of the methods to take
============================

**When do errors in x need a method of their own, and when is the usual one enough?**

It depends on what is asked. Here are three questions about the same table, answered by a Gaussian process of
scikit-learn, which ignores the errors of x, and by ``EiVRegressor``.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from eiv import EiVRegressor

random = np.random.default_rng(2)


def rows(n):
    zeta = random.normal(0, 0.6, n)
    X = (zeta + 0.25 * random.standard_normal(n))[:, None]
    return zeta, X, np.sin(3 * zeta) + 0.1 * random.standard_normal(n)


_, X, y = rows(400)
zeta_new, X_new, y_new = rows(1000)
grid = np.linspace(-1.2, 1.2, 100)[:, None]

process = GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), normalize_y=True, random_state=0)
process.fit(X, y)
model = EiVRegressor(x_err=0.25, random_state=0).fit(X, y)

# %%
# The kernel of the process ends with white noise, which is the noise of a label. Without it, its standard deviation is
# that of the curve.

noise = np.sqrt(process.kernel_.k2.noise_level) * y.std()  # the process has standardised y
mean, label_std = process.predict(X_new, return_std=True)
std = np.sqrt(label_std**2 - noise**2)
p = model.predict_distribution(X_new)

found = {}
for name, at_new, of_f, of_label, curve in (
    ("Gaussian process", mean, std, label_std, process.predict(grid)),
    ("eiv", p.mean, p.std, p.total, model.predict(grid, X_err=0)),
):
    found[name] = (
        np.sqrt(np.mean((at_new - y_new) ** 2)),
        np.mean(np.abs(at_new - y_new) < 1.96 * of_label),
        np.sqrt(np.mean((curve - np.sin(3 * grid[:, 0])) ** 2)),
        np.mean(np.abs(at_new - np.sin(3 * zeta_new)) < 1.96 * of_f),
    )
    print(f"{name}:")
    print(f"  1. labels of new rows: off by {found[name][0]:.3f}, {found[name][1]:.0%} inside 1.96 standard deviations")
    print(f"  2. the curve at exactly known inputs: off by {found[name][2]:.3f}")
    print(f"  3. true values of new rows: {found[name][3]:.0%} inside 1.96 standard deviations")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.plot(X[:, 0], y, ".", color="0.75", markersize=4, label="measured rows")
left.plot(grid[:, 0], np.sin(3 * grid[:, 0]), "k--", label="truth")
left.plot(grid[:, 0], process.predict(grid), color="tab:blue", label="Gaussian process")
left.plot(grid[:, 0], model.predict(grid, X_err=0), color="tab:red", label="eiv, the curve (X_err=0)")
left.plot(grid[:, 0], model.predict(grid), ":", color="tab:red", label="eiv, prediction from a noisy x")
left.set(xlabel="x", ylabel="y", xlim=(-1.3, 1.3))
left.legend(fontsize=8)
places = np.arange(2)
for shift, (name, colour) in zip((-0.2, 0.2), (("Gaussian process", "tab:blue"), ("eiv", "tab:red")), strict=True):
    right.bar(places + shift, [found[name][1], found[name][3]], 0.35, color=colour, label=name)
right.axhline(0.95, color="k", linestyle=":", linewidth=1)
right.set_xticks(places, ["labels", "true values"])
right.set(ylabel="share inside 1.96 standard deviations", ylim=(0, 1.25))
right.legend(ncols=2)
plt.show()

# %%
# **What it says.**
#
# 1. To predict labels of new rows, measured with the same error as the rows of the fit, the usual method is as good:
#    the error of x is part of the scatter that it learns. If errors are alike in all rows, and labels are all that is
#    asked, take it. It is faster.
# 2. For the curve itself, at inputs that are known exactly or better, the usual method is too flat. This does not get
#    better with more rows. Take the errors into account. (The dotted line is flat too, as it should be: it is the best
#    guess of f from a noisy x.)
# 3. For true values and their uncertainty, take the errors into account. The usual method knows only the uncertainty of
#    its own curve, and leaves out that x may stand for another ζ.
#
# Where errors differ from row to row, the first answer changes as well: see the page on redshifts. Where the curve is
# known to be a straight line or another formula with a few parameters, fit that formula: "From scipy.odr" in the guides
# compares the two. ``eiv compare`` runs these and other methods on a table of your own, and says which to take.
