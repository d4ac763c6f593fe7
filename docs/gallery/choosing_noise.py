"""
Choosing the noise
==================

**Labels scatter about the curve. Alike everywhere, with a few far off, or more here than there: does it matter what the
model assumes?**

Two tables with the same curve and the same errors of x. In the first one label in twenty is a glitch. In the second
the noise grows along x. Each is fitted with normal noise, the default, and with the noise that suits it.
"""

import matplotlib.pyplot as plt
import numpy as np

from eiv import EiVRegressor

random = np.random.default_rng(3)
n = 400
zeta = random.uniform(-1, 1, n)
X = (zeta + 0.05 * random.standard_normal(n))[:, None]
f = np.sin(3 * zeta)
glitches = np.where(random.random(n) < 0.05, random.choice([-1, 1], n) * random.uniform(1, 3, n), 0.0)
tables = {
    "some labels far off": (f + 0.1 * random.standard_normal(n) + glitches, "student_t"),
    "noise that grows": (f + (0.05 + 0.2 * (zeta + 1)) * random.standard_normal(n), "varying"),
}

# %%
# ``student_t`` and ``varying`` need networks of layers, which are trained by steps. A hundred epochs are enough for so
# smooth a curve, and keep this page quick.

grid = np.linspace(-0.95, 0.95, 60)[:, None]
truth = np.sin(3 * grid[:, 0])
figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained", sharex=True, sharey="row")
for row, (title, (y, suited)) in zip(axes, tables.items(), strict=True):
    for panel, likelihood in zip(row, ("normal", suited), strict=True):
        model = EiVRegressor(x_err=0.05, likelihood=likelihood, network="paper", epochs=100, random_state=0)
        model.fit(X, y)
        p = model.predict_distribution(grid, X_err=0)
        error = np.sqrt(np.mean((p.mean - truth) ** 2))
        print(f"{title}, {likelihood}: error of the curve {error:.3f}, noise {p.noise[0]:.2f} to {p.noise[-1]:.2f}")
        colour = "tab:blue" if likelihood == "normal" else "tab:red"
        panel.plot(X[:, 0], y, ".", color="0.7", markersize=3)
        panel.fill_between(grid[:, 0], *p.interval(0.95, of="label"), color=colour, alpha=0.25, label="95 % of labels")
        panel.plot(grid[:, 0], p.mean, color=colour, label="fitted curve")
        panel.plot(grid[:, 0], truth, "k--", linewidth=1, label="truth")
        panel.set_title(f'{title}: likelihood="{likelihood}"', fontsize=10)
axes[0, 0].legend(fontsize=8)
for panel in axes[1]:
    panel.set_xlabel("x")
plt.show()

# %%
# **What it says.** Above, the normal fit takes the glitches for noise: its interval is several times too wide for the
# other labels, and its curve is off by more than three times as much. Student's t knows that a few labels may lie far
# off, and lets them. Below, one number for the noise is too much on the left and too little on the right. With noise
# that varies, the interval follows the scatter, and the curve is closer to the truth, because labels on the left count
# for more. The corners of the curves are those of a network of layers; see "Choosing a noise model" in the guides for
# what each noise assumes and costs.
