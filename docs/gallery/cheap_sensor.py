"""
A cheap sensor beside a good one
================================

**How well does a cheap sensor know the water in the air, and which of its readings should be improved first?**

A cheap sensor reads temperature, relative humidity and pressure. A good instrument stood beside it for a while and
measured what is wanted, the mixing ratio: grams of water per kilogram of dry air. From then on there is only the cheap
sensor. Its data sheet states its errors.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from eiv import EiVRegressor

table = pd.read_csv("../../examples/humidity.csv")
inputs = ["temperature_C", "humidity_percent", "pressure_hPa"]
X, y = table[inputs], table["mixing_ratio_g_kg"]
X_err = pd.DataFrame(
    {
        "temperature_C": 0.4,  # °C
        "humidity_percent": table["humidity_err"],  # per cent of relative humidity; a column of the table
        "pressure_hPa": 0.001 * table["pressure_hPa"],  # a thousandth of the reading
    }
)
table.head()

# %%
# The first 300 rows are for the fit, with the errors of the readings and, for comparison, without. The last 100 rows
# stand for the time after the good instrument has left.

learn, test = slice(0, 300), slice(300, None)
model = EiVRegressor(random_state=0).fit(X[learn], y[learn], X_err=X_err[learn])
blind = EiVRegressor(random_state=0).fit(X[learn], y[learn])

p = model.predict_distribution(X[test], X_err=X_err[test], budget=True)
q = blind.predict_distribution(X[test])
dry, humid = np.array_split(np.argsort(p.mean), 2)
for name, prediction in {"with errors": p, "errors ignored": q}.items():
    off = np.abs(prediction.mean - y[test].to_numpy())
    print(f"{name}: off by {np.sqrt(np.mean(off**2)):.2f} g/kg (root mean square)")
    for half, rows in {"dry": dry, "humid": humid}.items():
        print(
            f"  {half} half: off by {np.sqrt(np.mean(off[rows] ** 2)):.2f}, stated {prediction.total[rows].mean():.2f}"
        )

# %%
# With the errors the predictions are closer to the good instrument, and the stated uncertainty of a label agrees with
# how far off they are, in dry air as in humid air. The same error of 0.4 °C matters more in warm and humid air, because
# the curve is steep there.
#
# The budget says which reading causes how much of the uncertainty.

budget = p.budget()[inputs].mean()
print(budget.round(2))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(p.mean, np.abs(y[test] - p.mean), "x", color="0.5", markersize=4, label="how far off it was")
left.plot(p.mean, p.total, ".", color="tab:red", label="stated uncertainty of a label")
left.set(xlabel="predicted mixing ratio, g/kg", ylabel="g/kg")
left.legend(fontsize=8)
budget.plot.barh(ax=right, color="tab:red")
right.set(xlabel="share in the variance that the errors of the readings cause")
plt.show()

# %%
# **What it says.** In dry air the sensor is good to a fraction of a gram per kilogram. In humid air it is worse, and
# the red points say so row by row; most crosses lie below them, as they should. Humidity and temperature share the
# blame. The error of the pressure does not count: a better pressure sensor would be wasted money.
