"""The header of a model file in words, for `eiv info` and for the page of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eiv import validation as v
from eiv.report.words import factor_sentence

_FORMS = {"array": "an array", "relative": "relative errors"}  # of settings; others are called by their type
_SCORES = ("rows", "rmse", "spread", "coverage_95", "epistemic", "aleatoric", "total")


def header_lines(header: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The lines that describe a model file, each a name and a value."""
    notes, training = header["notes"], header["training"]
    versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
    names, features = header["features"]["names"], header["features"]
    shown = ", ".join(with_units(names or [f"x{j}" for j in range(features["n"])], features.get("units")))
    given_seed = notes.get("seed", header["settings"].get("random_state"))
    noise = ", ".join(f"{value:.4g}" for value in training["y_noise"])
    classes = header["outputs"].get("classes")
    lines = [
        ("written by", f"{versions} (format {header['format']})"),
        ("features", f"{features['n']}" + (f": {shown}" if names or "units" in features else ", without names")),
    ]
    if "target" in notes:
        lines.append(("target", str(notes["target"])))
    if isinstance(notes.get("x_err"), dict):
        lines.append(("errors of the features", _errors(notes["x_err"])))
    elif "error_columns" in features:
        columns, errors = (features["error_columns"][part] for part in ("columns", "errors"))
        of_each = (
            f"{name}: {f'column {error}' if error in columns else _plain(error)}" for name, error in errors.items()
        )
        lines.append(("errors of the features", ", ".join(of_each)))
    taken = words_on_factor(header)
    if taken:
        lines.append(("size of these errors", taken))
    if isinstance(notes.get("y_err"), dict):
        lines.append(("known errors of the labels", _errors(notes["y_err"])))
    if "rows" in notes:
        learned, left_out = notes.get("rows_learned_from", notes["rows"]), notes.get("rows_left_out", 0)
        lines.append(
            ("data", f"{notes.get('data')}: {notes['rows']} rows, {left_out} left out, learned from {learned}")
        )
    if isinstance(notes.get("weights"), dict):
        weights = notes["weights"]
        lines.append(("weights of the rows", f"column {weights.get('column')}, {_plain(weights.get('sum'))} in all"))
    lines += [
        ("networks", f"{header['n_networks']}{_of_sizes(header)}, {_network(header['settings'])}{_shares(header)}"),
        (
            "training",
            f"{training['epochs']} {_unit(header['settings'])}, loss {training['first_loss']:.4g} to "
            f"{training['last_loss']:.4g}",
        ),
        ("classes", ", ".join(map(str, classes["values"])))
        if classes
        else ("noise of the target", noise + _described(training)),
        *_chosen(training),
        ("settings", _settings(settings_of(header), _recipe(header))),
        ("seed", str(header["seed"] if given_seed is None else given_seed)),
    ]
    scores = notes.get("holdout")
    if isinstance(scores, dict):
        lines.append(("on rows held out", ", ".join(f"{name} {_plain(value)}" for name, value in scores.items())))
    return lines


def _described(training: Mapping[str, Any]) -> str:
    """How labels scatter, in brackets; empty for normal noise and for older files."""
    words = training.get("likelihood", "")
    v.check("the likelihood of its training", words, v.Constraint(lambda value: isinstance(value, str), "words"))
    return f" ({words})" if words else ""


def _chosen(training: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the likelihood was chosen, where the data chose it."""
    words = training.get("likelihood_choice", "")
    v.check("the choice of its likelihood", words, v.Constraint(lambda value: isinstance(value, str), "words"))
    return [("likelihood", words)] if words else []


def words_on_factor(header: Mapping[str, Any]) -> str:
    """That stated errors of X are not taken as they are, and why; empty where they are.

    Where their size was learned, what was found, and that it holds for new rows too.
    """
    if (sizes := header.get("sizes")) is not None:  # older files have none
        from eiv.inputs import LearnedSizes  # noqa: PLC0415  (slow to import)

        factor, std, prior_std = (np.array(sizes[name], dtype=float) for name in ("factor", "std", "prior_std"))
        found = LearnedSizes(factor, std, prior_std).words(header["features"]["names"])
        return " ".join([*found, "Errors that are stated for new rows are multiplied in the same way."])
    factor = header["settings"].get("x_err_factor", 1.0)
    v.check("x_err_factor", factor, v.real(0))
    return factor_sentence(factor, header["changed_since_fit"].get("x_err_factor", factor))


def settings_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """All settings: those of the fit, including its recipe, with those that were changed since."""
    changed = {name: value for name, value in header["changed_since_fit"].items() if value is not None}
    return {**header["settings"], **changed}


def held_out_scores(notes: Mapping[str, Any]) -> dict[str, float] | None:
    """The scores on held-out rows, as `eiv fit` notes them; None where there are none."""
    scores = notes.get("holdout")
    if not isinstance(scores, dict) or not all(isinstance(scores.get(name), int | float) for name in _SCORES):
        return None
    return {name: float(scores[name]) for name in _SCORES}


def output_names(header: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the outputs, or words for them."""
    n_outputs, names = header["outputs"]["n"], header["outputs"]["names"]
    if names:
        return tuple(names)
    target = header["notes"].get("target")
    if n_outputs == 1:
        return (target if isinstance(target, str) else "y",)
    return tuple(f"y{i}" for i in range(n_outputs))


def with_units(names: Sequence[str], units: Sequence[str | None] | None) -> tuple[str, ...]:
    """Names as axes and tables show them, with their units where these are known: `length [m]`."""
    pairs = zip(names, units or [None] * len(names), strict=True)
    return tuple(f"{name} [{unit}]" if unit else name for name, unit in pairs)


def _plain(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _errors(content: dict[str, Any]) -> str:
    from eiv.io.tables import ErrorSpec  # noqa: PLC0415

    return "; ".join(f"{name}: {term}" for name, term in ErrorSpec.from_json(content).terms.items())


def _network(settings: Mapping[str, Any]) -> str:
    if settings["module"] is not None:
        return f"of the module {settings['module']}, to be given again at load"
    if settings.get("network") == "cosine":
        return f"a layer of {settings['hidden_units']} cosines"
    return f"{settings['n_hidden']} hidden layers of {settings['hidden_units']} units"


def _of_sizes(header: Mapping[str, Any]) -> str:
    """How many networks belong to each size of the errors, where their size was learned; else empty."""
    nodes = (header.get("sizes") or {}).get("nodes")
    return f", {header['n_networks'] // len(nodes)} for each of {len(nodes)} sizes of the errors" if nodes else ""


def _shares(header: Mapping[str, Any]) -> str:
    """The share of each network in a prediction, where they differ; empty for older files, which do not hold it."""
    weights = header.get("weights", [])
    return f"; their shares are {', '.join(f'{weight:.3g}' for weight in weights)}" if len(set(weights)) > 1 else ""


def _unit(settings: Mapping[str, Any]) -> str:
    """The word for the units of training: epochs or rounds."""
    return "rounds" if settings.get("network") == "cosine" else "epochs"


def _recipe(header: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of the recipe; an older file has its name alone."""
    recipe, name = header.get("recipe"), header["settings"]["recipe"]
    if recipe is not None and recipe["recipe"] == name:
        return dict(recipe)
    from eiv.training.settings import RECIPES  # noqa: PLC0415  (slow to import)

    return RECIPES[name]


def _settings(settings: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """The recipe, its main settings, and those that differ from it, without those that have lines of their own."""
    shown = {name: settings[name] for name in ("recipe", "posterior", "input_prior", "zeta_draws", "y_noise")}
    by_rows = [name for name, value in default.items() if value is None]
    elsewhere = {"random_state", "module", "hidden_units", "n_hidden", "n_networks", *by_rows}
    shown |= {name: value for name, value in settings.items() if value != default.get(name) and name not in elsewhere}
    return ", ".join(f"{name}={_shown(value)}" for name, value in shown.items())


def _shown(value: Any) -> str:
    """A setting in words, from its form in the file."""
    if not isinstance(value, dict):
        return str(value)
    kind = value.get("type")
    if kind == "own":
        return f"{value.get('name')} (to be given again at load)"
    if kind == "float":  # not a finite number
        return str(value.get("value"))
    return _FORMS.get(str(kind), f"a {str(kind).replace('_', ' ')}")
