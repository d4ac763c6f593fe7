"""
Photometric redshifts
=====================

**How far away is a galaxy, if all we have are its colours with their error bars?**

A spectrum gives the redshift of a galaxy, and is expensive. Brightness in a few filters is cheap, and its error is
known for each galaxy: faint ones are measured worse. A model learned from galaxies with spectra predicts the others.

The galaxies here are simulated. Their spectra have a break at 400 nm that moves through five filters as the redshift
grows. A second quantity, the kind of the galaxy, changes how high the break is.
"""

import matplotlib.pyplot as plt
import numpy as np

from eiv import EiVRegressor

random = np.random.default_rng(5)
CENTRES = np.array([355, 475, 620, 760, 905])  # nm, the middle of each filter


def magnitudes(redshift, height):
    """Brightness in the five filters: a smooth step at 400 (1 + z) nm, and a slope."""
    position = np.log(CENTRES / 400) - np.log1p(redshift)[:, None]
    return -height[:, None] / (1 + np.exp(-8 * position)) - 0.4 * position


def survey(n):
    redshift = random.beta(2, 3, n)  # up to 1
    height = random.normal(2.0, 0.2, n)
    faintness = 19 + 3 * redshift + random.normal(0, 0.7, n)
    error = 0.02 * 10 ** (0.2 * (faintness - 20))[:, None] * np.ones(5)
    measured = magnitudes(redshift, height) + error * random.standard_normal((n, 5))
    colours = measured[:, :-1] - measured[:, 1:]
    # Neighbouring colours share a filter, so their errors are correlated: a covariance for each galaxy.
    difference = np.eye(4, 5) - np.eye(4, 5, k=1)
    covariance = np.einsum("ij,nj,kj->nik", difference, error**2, difference)
    return colours, covariance, redshift, faintness


X, X_err, z, _ = survey(500)
X_new, X_err_new, z_new, faintness = survey(1000)
print(f"errors of a colour: {np.sqrt(X_err[:, 0, 0]).min():.3f} to {np.sqrt(X_err[:, 0, 0]).max():.3f} mag")

# %%
# The fit takes the covariance of each galaxy's colours.

model = EiVRegressor(random_state=0).fit(X, z, X_err=X_err)
p = model.predict_distribution(X_new, X_err=X_err_new)
q = EiVRegressor(random_state=0).fit(X, z).predict_distribution(X_new)

quarters = np.array_split(np.argsort(faintness), 4)
print("from bright to faint galaxies, a quarter each:")
for name, prediction in {"with errors": p, "errors ignored": q}.items():
    low, high = prediction.interval(0.95, of="label")
    inside = (low <= z_new) & (z_new <= high)
    off = prediction.mean - z_new
    print(f"{name}: error", [f"{np.sqrt(np.mean(off[rows] ** 2)):.3f}" for rows in quarters])
    print("  inside their 95 % interval", [f"{inside[rows].mean():.2f}" for rows in quarters])

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
shown = random.choice(1000, 150, replace=False)
low, high = p.interval(0.95, of="label")
left.errorbar(
    z_new[shown],
    p.mean[shown],
    yerr=[(p.mean - low)[shown], (high - p.mean)[shown]],
    fmt=".",
    color="tab:red",
    elinewidth=0.5,
    markersize=4,
)
left.plot([0, 1], [0, 1], "k--", linewidth=1)
left.set(xlabel="true redshift", ylabel="predicted redshift, 95 % interval")
middle = [faintness[rows].mean() for rows in quarters]
for name, prediction, style in (("with errors", p, "o-"), ("errors ignored", q, "s--")):
    low, high = prediction.interval(0.95, of="label")
    inside = (low <= z_new) & (z_new <= high)
    colour = "tab:red" if prediction is p else "tab:blue"
    right.plot(middle, [inside[rows].mean() for rows in quarters], style, color=colour, label=name)
right.axhline(0.95, color="k", linewidth=1, linestyle=":")
right.set(xlabel="magnitude", ylabel="share inside the 95 % interval")
right.legend()
plt.show()

# %%
# **What it says.** Both models predict about equally well. They differ in what they promise. With the errors, about 95
# of 100 intervals hold the true redshift, of bright as of faint galaxies. Where the errors are ignored, noise is the
# same for all: too much for bright galaxies, nearly all of which are inside, and too little for the faintest quarter.
