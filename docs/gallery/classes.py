"""
Classes from noisy measurements
===============================

**Which objects are worth measuring again?**

Two kinds of objects differ in one measured quantity, say the width of an image: stars are narrow, galaxies are wide,
and they overlap a little. Faint objects are measured with larger errors. A classifier that does not know the errors
sees more overlap than there is, and is equally unsure of bright and faint objects of the same width.
"""

import matplotlib.pyplot as plt
import numpy as np

from eiv import EiVClassifier

random = np.random.default_rng(0)
n = 600
width = random.normal(size=n)  # the true width
kind = np.where(width + 0.3 * random.normal(size=n) > 0, "galaxy", "star")
error = random.choice([0.1, 0.8], size=n)  # bright or faint
X, X_err = (width + error * random.normal(size=n))[:, None], error[:, None]

model = EiVClassifier(random_state=0, epochs=60).fit(X, kind, X_err=X_err)

# %%
# The same measured width, once for a bright and once for a faint object:

for label, size in {"bright": 0.1, "faint": 0.8}.items():
    p = model.predict_distribution([[0.8]], X_err=[[size]])
    galaxy = p.probabilities[0, list(model.classes_).index("galaxy")]
    print(f"{label}: probability of a galaxy {galaxy:.2f}")
    parts = f"overlap {p.label[0]:.2f} + error of x {p.aleatoric[0]:.2f} + weights {p.epistemic[0]:.2f}"
    print(f"  entropy {p.entropy[0]:.2f} nats = {parts}")

# %%
# The entropy of a prediction is split. ``label`` is the overlap of the kinds, which no measurement removes.
# ``aleatoric`` is what the error of x causes, and what a better measurement would take away.

grid = np.linspace(-3, 3, 121)[:, None]
figure, (left, *panels) = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharex=True)
for (label, size), style, panel in zip({"bright": 0.1, "faint": 0.8}.items(), ("-", "--"), panels, strict=True):
    p = model.predict_distribution(grid, X_err=np.full_like(grid, size))
    galaxy = p.probabilities[:, list(model.classes_).index("galaxy")]
    left.plot(grid[:, 0], galaxy, style, color="tab:red", label=f"{label}, error {size}")
    panel.stackplot(
        grid[:, 0],
        p.label,
        p.aleatoric,
        p.epistemic,
        labels=["overlap of the kinds", "error of x", "weights"],
        colors=["0.8", "tab:red", "tab:blue"],
    )
    panel.set(title=label, xlabel="measured width", ylabel="entropy, nats", ylim=(0, 0.72))
left.set(xlabel="measured width", ylabel="probability of a galaxy")
left.legend()
panels[0].legend(loc="upper left", fontsize=7, frameon=False)
plt.show()

# %%
# **What it says.** Of bright objects only those close to the border are in doubt, and nearly all of the doubt is
# overlap of the kinds: measuring them again would not help. Faint objects are in doubt over a wide range, and more than
# half of that is red: these are the ones to measure again. The weights are known so well that they hardly show.
