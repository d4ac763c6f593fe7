"""
Missing readings
================

**Is a row lost when one of its readings is missing?**

Five sensors see the same process, so that their readings are correlated. Each fails now and then: a tenth of the cells
is empty, and four rows of ten have at least one gap. What is wanted is y, from whatever was read.
"""

import matplotlib.pyplot as plt
import numpy as np

from eiv import EiVRegressor

random = np.random.default_rng(6)
loadings = random.normal(size=(2, 5))


def rows(n):
    """Readings with gaps, and their labels."""
    common = random.normal(size=(n, 2))
    zeta = common @ loadings + 0.3 * random.normal(size=(n, 5))
    y = np.sin(zeta[:, 0]) + 0.5 * zeta[:, 1] + 0.1 * random.normal(size=n)
    X = zeta + 0.2 * random.normal(size=(n, 5))
    return np.where(random.random((n, 5)) < 0.1, np.nan, X), y


X, y = rows(400)
X_new, y_new = rows(1000)
whole, gaps = np.isfinite(X).all(axis=1), np.isnan(X_new).any(axis=1)
print(f"rows without a gap: {whole.mean():.0%} of those for the fit, {1 - gaps.mean():.0%} of the new ones")

# %%
# With ``missing="integrate"`` a missing reading is one about which only the other readings of its row say something.
# Its true value is integrated over. The usual ways are to leave out such rows, and to fill gaps with the mean.

means = np.nanmean(X, axis=0)
filled, filled_new = np.where(np.isnan(X), means, X), np.where(np.isnan(X_new), means, X_new)
answers = {
    "integrated": EiVRegressor(x_err=0.2, missing="integrate", random_state=0).fit(X, y).predict_distribution(X_new),
    "filled with the mean": EiVRegressor(x_err=0.2, random_state=0).fit(filled, y).predict_distribution(filled_new),
    "fitted without gaps": EiVRegressor(x_err=0.2, random_state=0)
    .fit(X[whole], y[whole])
    .predict_distribution(filled_new),
}

found = {}
for name, p in answers.items():
    low, high = p.interval(0.95, of="label")
    inside, off = (low <= y_new) & (y_new <= high), p.mean - y_new
    found[name] = {
        place: (np.sqrt(np.mean(off[chosen] ** 2)), inside[chosen].mean())
        for place, chosen in {"with gaps": gaps, "without": ~gaps}.items()
    }
    for place, (error, share) in found[name].items():
        print(f"{name}, new rows {place}: off by {error:.2f}, labels inside their 95 % interval {share:.2f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
colours = ("tab:red", "tab:blue", "0.6")
for shift, (name, pairs), colour in zip((-0.27, 0, 0.27), found.items(), colours, strict=True):
    for panel, which in ((left, 0), (right, 1)):
        panel.bar(np.arange(2) + shift, [pair[which] for pair in pairs.values()], 0.25, color=colour, label=name)
for panel in (left, right):
    panel.set_xticks(range(2), ["new rows with gaps", "new rows without"])
left.set(ylabel="root mean square error of labels")
right.set(ylabel="share of labels in their 95 % interval", ylim=(0.5, 1.02))
right.axhline(0.95, color="k", linestyle=":", linewidth=1)
left.legend(fontsize=8)
plt.show()

# %%
# **What it says.** No: the other four readings say much about the missing one, and what they leave open is part of the
# interval. A mean that is put into the gap ignores the other readings, and the model takes it for a reading:
# predictions are much farther off, and too few labels are inside their intervals, least of all where the fit never saw
# a gap. For rows without gaps the ways differ little. All this holds if readings are missing for reasons that have
# nothing to do with their values.
