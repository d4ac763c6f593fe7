"""The tables of this folder: the water vapour in air, from the readings of a cheap sensor.

The true air has a temperature t, a relative humidity h and a pressure p. By the Magnus formula (WMO Guide No. 8) its
saturation vapour pressure is 6.112 exp(17.62 t / (243.12 + t)) hPa with t in degrees Celsius; its mixing ratio, grams
of water a kilogram of dry air, is 621.98 e / (p - e) with e = h times that. A reference instrument measures the mixing
ratio beside the sensor; new rows come from the sensor alone.

    python examples/make_humidity.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
N_TRAINING, N_NEW = 400, 25
TEMPERATURE_ERROR = 0.4  # °C, standard deviation
PRESSURE_ERROR = 0.001  # of the reading
REFERENCE_ERROR = 0.15  # g/kg


def mixing_ratio(temperature, humidity, pressure):
    """Grams of water a kilogram of dry air, from degrees Celsius, percent and hectopascal."""
    vapour = humidity / 100 * 6.112 * np.exp(17.62 * temperature / (243.12 + temperature))
    return 621.98 * vapour / (pressure - vapour)


def humidity_error(humidity):
    """The standard deviation of the humidity sensor, in percent: larger near its ends, as its data sheet says."""
    return np.where((humidity >= 20) & (humidity <= 80), 1.2, 2.0)


def measured(n_rows, random):
    """The readings of both instruments, and the true mixing ratio, which they do not know."""
    temperature = random.uniform(5, 35, n_rows)
    humidity = random.uniform(15, 95, n_rows)
    pressure = random.normal(990, 15, n_rows)
    error = humidity_error(humidity)
    truth = mixing_ratio(temperature, humidity, pressure)
    readings = pd.DataFrame(
        {
            "sample": np.arange(1, n_rows + 1),
            "temperature_C": (temperature + TEMPERATURE_ERROR * random.standard_normal(n_rows)).round(2),
            "humidity_percent": (humidity + error * random.standard_normal(n_rows)).round(1),
            "humidity_err": error,
            "pressure_hPa": (pressure * (1 + PRESSURE_ERROR * random.standard_normal(n_rows))).round(1),
            "mixing_ratio_g_kg": (truth + REFERENCE_ERROR * random.standard_normal(n_rows)).round(2),
        }
    )
    return readings, truth


def tables():
    """The two tables by their names, and the true mixing ratios of the new rows."""
    random = np.random.default_rng(0)
    training, _ = measured(N_TRAINING, random)
    new, truth = measured(N_NEW, random)
    return {"humidity.csv": training, "new.csv": new.drop(columns="mixing_ratio_g_kg")}, truth


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, table in tables()[0].items():
        table.to_csv(folder / name, index=False)
