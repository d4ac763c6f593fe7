"""Results of a reproduction that were made up, so that every verdict is known; and pages in half the time."""

import contextlib
from dataclasses import fields
from functools import cache

import numpy as np
import pandas as pd
import pytest

from eiv import plotting
from eiv.datasets import SIMULATED
from eiv.experiments.paper.evaluation import LEVELS
from eiv.experiments.paper.stacks import DRAWN_ANEW
from eiv.experiments.paper.tables import Tables

SETS = ("linear", "quadratic", "cubic", "sine", "yacht", "naval")


def made_up(n_networks=6, sets=SETS, **changes):
    """Tables on which every claim of the paper holds, but for `changes` of single columns of the EiV model."""
    drawn = _drawn(n_networks, tuple(sets), tuple(changes.items()))
    return Tables(*(getattr(drawn, field.name).copy() for field in fields(drawn)))


@cache
def _drawn(n_networks, sets, changes):
    random = np.random.default_rng(0)
    columns = {
        "eiv": {"rmse": 1.0, "u": 1.0, "y_noise": 1.0, "truth_coverage": 0.95, "label_coverage_u": 0.6},
        "non_eiv": {"rmse": 1.0, "u": 0.4, "y_noise": 1.0, "truth_coverage": 0.5, "label_coverage_u": 0.3},
        "g_regression": {"rmse": 1.0, "u": 0.1, "y_noise": 1.0, "truth_coverage": 0.2, "label_coverage_u": 0.1},
    }
    networks, calibration, points = [], [], []
    for name in sets:
        for method, values in columns.items():
            if method == "g_regression" and name in ("yacht", "naval"):
                continue
            for estimator in ("parameters", "predictive") if method == "g_regression" else ("unbiased", "literal"):
                for network in range(n_networks):
                    row = {"dataset": name, "method": method, "network": network, "estimator": estimator, "unit": 1.0}
                    found = values | {"label_coverage_total": 0.95} | (dict(changes) if method == "eiv" else {})
                    if method == "eiv" and name == "naval":
                        found["rmse"] = 1.5
                    row |= {key: value + 0.001 * random.standard_normal() for key, value in found.items()}
                    networks.append(row)
                    coverage = (lambda q: q) if method == "eiv" else (lambda q: 0.5 * q)
                    calibration += [{**row, "q": q, "coverage": coverage(q)} for q in LEVELS]
            for estimator in ("unbiased", "literal"):
                zeta = random.uniform(-1, 1, 200)
                x = zeta + 0.3 * random.standard_normal(200)
                points.append(
                    pd.DataFrame(
                        {"zeta": zeta, "x": x, "truth": zeta, "g_of_x": x, "mean": x, "mean_se": 0.001}
                    ).assign(u=0.05, u_se=0.001, dataset=name, method=method, estimator=estimator, kind="fresh")
                )
    points = pd.concat(points)
    for keys, part in points.groupby(["dataset", "estimator"]):  # both models predict alike, at the same points
        first = part.query("method == 'eiv'")
        for method in ("eiv", "non_eiv"):
            rows = (points[["dataset", "estimator"]] == list(keys)).all(axis=1) & (points["method"] == method)
            points.loc[rows, ["zeta", "x", "truth", "g_of_x", "mean"]] = first[
                ["zeta", "x", "truth", "g_of_x", "mean"]
            ].to_numpy()
    wider = [
        {**row, "method": "eiv_0.05", "rmse": 3.0}
        for row in networks
        if row["dataset"] == "naval" and row["method"] == "eiv"
    ]
    return Tables(pd.DataFrame(networks + wider), pd.DataFrame(calibration), points, pd.DataFrame())


@contextlib.contextmanager
def only_svg():
    """Figures are rendered for the page, which holds them as SVG; the PNG beside it holds a dot."""
    image = plotting.image
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plotting, "image", lambda figure, kind: image(figure, kind) if kind == "svg" else b"\x89PNG")
        yield


def run_tables(sets=SETS):
    """Tables with all that a page shows, from numbers that were made up."""
    tables = made_up(sets=sets)
    line = tables.points.groupby(["dataset", "method", "estimator"]).head(50).assign(kind="line")
    line["zeta"] = np.tile(np.linspace(-1, 1, 50), len(line) // 50)
    for column in ("rmse_truth", "epistemic", "aleatoric"):
        tables.networks[column] = 0.1
    stacks = tables.networks[["dataset", "method"]].drop_duplicates()
    known = {"n_networks": 6, "seed": 0, "device_name": "x86_64", "eiv": "0", "torch": "2", "numpy": "2", "python": "3"}
    stacks = stacks.assign(**known, training_s=1.0, evaluation_s=0.5, finished="2026-01-01T00:00:00Z")
    stacks.loc[stacks["dataset"].isin(SIMULATED), "data_drawn"] = DRAWN_ANEW
    return Tables(tables.networks, tables.calibration, pd.concat([tables.points, line]), stacks)
