"""The public API is a list, every name on it is explained, and importing it is cheap."""

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import eiv

ROOT = Path(__file__).parents[1]
MODULES = [name for _, name, _ in pkgutil.walk_packages(eiv.__path__, "eiv.")]
NAMES = sorted(
    {
        (value.__module__, name)
        for module in ["eiv", *MODULES]
        for name in getattr(importlib.import_module(module), "__all__", [])
        if inspect.isclass(value := getattr(importlib.import_module(module), name)) or inspect.isfunction(value)
    }
)


def test_the_public_names_are_these():
    assert eiv.__all__ == [
        "ClassPrediction",
        "Comparison",
        "EiVClassifier",
        "EiVRegressor",
        "ErrorLaw",
        "ErrorScaler",
        "FittedModel",
        "FlatPrior",
        "InputQuantity",
        "LabelErrorWarning",
        "LearnedPrior",
        "LostPrecisionWarning",
        "MissedCurveWarning",
        "MixturePrior",
        "ModelFileError",
        "NormalPrior",
        "Prediction",
        "Repeats",
        "Sensitivity",
        "SuspiciousErrorWarning",
        "TrainingDivergedError",
        "TrueInputs",
        "UncertaintyBudget",
        "UnlikeRowsWarning",
        "censored",
        "compare",
        "errors_from_repeats",
        "estimated",
        "fit_splits",
        "growing",
        "law_from_fit",
        "law_from_pairs",
        "law_from_repeats",
        "rectangular",
        "relative",
        "sensitivity",
        "split_normal",
        "student_t",
        "triangular",
        "uncertainty_budgets",
    ]


def test_the_reference_page_lists_the_public_names():
    page = (ROOT / "docs" / "reference.md").read_text()
    for module, name in NAMES:
        assert f"`{name}`" in page, f"docs/reference.md does not list {module}.{name}"


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[name for _, name in NAMES])
def test_every_public_name_has_a_docstring_with_an_example(module, name):
    value = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(value) or ""
    assert ">>>" in text, "no example"
    for method, function in inspect.getmembers(value, inspect.isfunction):
        if not method.startswith("_") and function.__module__.startswith("eiv."):
            assert inspect.getdoc(function), f"{name}.{method} has no docstring"


def test_imports_are_light():
    """`import eiv`, and then the estimator in the same process; scikit-learn itself imports pandas."""
    heavy = ("matplotlib", "typer", "rich", "astropy", "pint", "uncertainties", "polars")
    shown = "print([name for name in {} if name in sys.modules])"
    first, then = shown.format((*heavy, "pandas")), shown.format(heavy)
    code = f"import eiv, sys; {first}; from eiv import EiVRegressor; {then}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["[]", "[]"]


def test_every_public_name_can_be_had():
    assert all(getattr(eiv, name) for name in eiv.__all__)
    assert set(eiv.__all__) < set(dir(eiv))
    with pytest.raises(AttributeError, match="no attribute 'Regressor'"):
        eiv.Regressor  # noqa: B018
