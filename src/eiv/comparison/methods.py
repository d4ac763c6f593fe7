"""The methods that are compared: `EiVRegressor`, and those of `eiv.baselines`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eiv.baselines import (
    BoostedTrees,
    GaussianProcess,
    LeastSquares,
    NoisyInputGaussianProcess,
    OrthogonalDistance,
    RegressionCalibration,
    Simex,
    YorkLine,
)
from eiv.extras import is_installed
from eiv.regressor import EiVRegressor
from eiv.validation import check_among

__all__ = ["METHODS", "OURS", "Method", "chosen_methods"]

OURS = "eiv"


@dataclass(frozen=True)
class Method:
    """A method to compare.

    Attributes:
        label: its name in tables and sentences.
        make: takes a seed and settings of `EiVRegressor`, which only that one uses; returns an estimator.
        gives_f: whether it gives f at exact inputs, rather than the mean of labels at a measured x.
        package: the optional package that it needs, or None.
        extra: the extra of eiv that installs the package.
        of_one_column: whether X must have one column, and the errors of y must be known.
        knows_laws: whether it takes laws of the errors as they are, and may integrate over missing readings.

    Examples:
        >>> METHODS["simex_plane"].make(0, {})
        Simex(random_state=0)

    """

    label: str
    make: Callable[[int | None, Mapping[str, Any]], Any]
    gives_f: bool = False
    package: str | None = None
    extra: str = ""
    of_one_column: bool = False
    knows_laws: bool = False

    def refusal(self, n_features: int, has_y_err: bool, has_gaps: bool) -> str:
        """Why the method cannot be run on a table; empty where it can."""
        if self.package is not None and not is_installed(self.package):
            return f'{self.package} is not installed: pip install "eiv[{self.extra}]"'
        if self.of_one_column and n_features != 1:
            return f"it takes one column, and the table has {n_features}"
        if self.of_one_column and not has_y_err:
            return "it needs the errors of y"
        if has_gaps and not self.knows_laws:
            return "it takes no missing readings"
        return ""


METHODS: dict[str, Method] = {
    OURS: Method(
        "eiv",
        lambda seed, settings: EiVRegressor(**{"random_state": seed} | dict(settings)),
        gives_f=True,
        knows_laws=True,
    ),
    "least_squares": Method("least squares (errors ignored)", lambda seed, _: LeastSquares()),
    "gaussian_process": Method("Gaussian process (errors ignored)", lambda seed, _: GaussianProcess(random_state=seed)),
    "boosted_trees": Method("boosted trees (errors as columns)", lambda seed, _: BoostedTrees(random_state=seed)),
    "calibrated_plane": Method("regression calibration (plane)", lambda seed, _: RegressionCalibration(), gives_f=True),
    "calibrated_gp": Method(
        "regression calibration (Gaussian process)",
        lambda seed, _: RegressionCalibration(regressor=GaussianProcess(random_state=seed)),
        gives_f=True,
    ),
    "simex_plane": Method("SIMEX (plane)", lambda seed, _: Simex(random_state=seed), gives_f=True),
    "orthogonal_plane": Method(
        "orthogonal distances (plane)",
        lambda seed, _: OrthogonalDistance(),
        gives_f=True,
        package="odrpack",
        extra="odr",
    ),
    "york_line": Method(
        "York's line", lambda seed, _: YorkLine(), gives_f=True, package="odrpack", extra="odr", of_one_column=True
    ),
    "noisy_input_gp": Method(
        "Gaussian process (noisy inputs)", lambda seed, _: NoisyInputGaussianProcess(random_state=seed)
    ),
}


def chosen_methods(
    methods: Sequence[str] | None, n_features: int, has_y_err: bool, has_gaps: bool = False
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of the methods to run on a table, and of those that cannot be run with the reason.

    Args:
        methods: some of `METHODS`; None for all.
        n_features: n_x.
        has_y_err: whether the errors of y are known.
        has_gaps: whether readings of X are missing.

    Returns:
        The two.

    Examples:
        >>> chosen_methods(["eiv", "york_line"], n_features=2, has_y_err=True)[0]
        ('eiv',)

    """
    names = tuple(METHODS) if methods is None else tuple(dict.fromkeys(methods))
    if not names:
        raise ValueError(f"methods must name one of {', '.join(map(repr, METHODS))} at least, got {methods!r}.")
    check_among("methods", names, METHODS)
    refused = {name: METHODS[name].refusal(n_features, has_y_err, has_gaps) for name in names}
    runs = tuple(name for name in names if not refused[name])
    if not runs:
        raise ValueError(f"methods: none can be run. {'; '.join(f'{n}: {why}' for n, why in refused.items())}.")
    return runs, {name: why for name, why in refused.items() if why}
