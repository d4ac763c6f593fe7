"""Random problems, each from one seed, with a known truth and a known limit.

Methods are developed on seeds below 1,000 and judged on others, so that they cannot be tuned to the problems that
judge them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from eiv.experiments.studies.random_inputs import CutColumns, NormalMixture, Zetas

__all__ = ["ERRORS", "SHAPES", "ZETAS", "DrawnRows", "Limit", "RandomProblem", "Ridges", "random_problem"]

Array = NDArray[np.float64]
SHAPES = ("plane", "smooth", "wiggly", "stepped", "direction")
ZETAS = ("uniform", "normal", "bimodal", "skewed", "curve")
ERRORS = ("equal", "per row", "correlated")
N_LIMIT = 500  # draws of zeta given x; so few raise the RMSE of the limit by 0.1 %
_COLUMNS = {"wiggly": (1, 3), "direction": (3, 20)}  # others: 1 to 20
_ROWS, _RELIABILITY, _Y_NOISE = (60, 20_000), (0.5, 0.99), (0.03, 0.5)
_SPREAD_DRAWS = 20_000  # draws from which the standard deviation of g is found
_COSINES = 40
_NODES = 601  # normals along a thin curve
_STREAMS = {"problem": 0, "training": 1, "test": 2, "limit": 3}
_SPREAD_OF_ERRORS = 0.6  # the standard deviation of their logarithm, where rows differ in their errors
_AT_ONCE = 100  # rows whose limit is computed at once, to bound memory

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "straight": np.positive,
    "cosine": np.cos,
    "step": lambda t: np.tanh(8 * t),
    "sine": lambda t: np.sin(2.5 * t),
    "bend": lambda t: np.tanh(3 * t) + 0.2 * t,
    "parabola": lambda t: t**2 / 2 + t,
}


@dataclass(frozen=True, eq=False)
class Ridges:
    r"""A sum of ridge functions, each of one direction; every g of this study has this form.

    .. math:: g(\zeta) = \sum_k c_k \, h(w_k^\top \zeta + b_k)

    Attributes:
        function: the name of h.
        directions: `K x n_x`, w.
        shifts: `K`, b.
        heights: `K`, c.

    Examples:
        >>> plane = Ridges("straight", np.array([[1.0, 2.0]]), np.zeros(1), np.ones(1))
        >>> plane(np.array([[1.0, 1.0]]))
        array([3.])

    """

    function: str
    directions: Array
    shifts: Array
    heights: Array

    def __call__(self, zeta: Array) -> Array:
        """The values g, `...`, at `... x n_x`."""
        found: Array = _FUNCTIONS[self.function](zeta @ self.directions.T + self.shifts) @ self.heights
        return found


@dataclass(frozen=True, eq=False)
class DrawnRows:
    r"""Rows of a problem, in its units.

    .. math:: x = \zeta + \varepsilon_x, \qquad y = g(\zeta) + \varepsilon_y

    Attributes:
        X: `rows x n_x`.
        X_err: the errors in a form for `EiVRegressor.fit`: `n_x`, `rows x n_x` or a covariance `1 x n_x x n_x`.
        y: `rows`, labels.
        zeta: `rows x n_x`, true inputs.
        truth: `rows`, g(zeta).

    Examples:
        >>> rows = random_problem(0).draw(5, "test")
        >>> rows.X.shape == rows.zeta.shape, rows.y.shape
        (True, (5,))

    """

    X: Array
    X_err: Array
    y: Array
    zeta: Array
    truth: Array


@dataclass(frozen=True, eq=False)
class Limit:
    r"""The mean and variance of g(zeta) given x, where g and the distribution of zeta are known.

    .. math:: \mathrm{E}[g(\zeta) \mid x], \qquad \mathrm{Var}[g(\zeta) \mid x]

    Attributes:
        mean: `rows`, the prediction with the smallest mean squared error.
        variance: `rows`, its mean squared error.

    Examples:
        >>> problem = random_problem(0)
        >>> limit = problem.limit(problem.draw(5, "test"))
        >>> bool((limit.variance >= 0).all())
        True

    """

    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class RandomProblem:
    r"""A problem: g, the distribution of zeta, the errors of x and of y, and units for all of them.

    .. math:: x_j = a_j + s_j (\zeta_j + \varepsilon_j), \qquad y = a_y + s_y (g(\zeta) + \varepsilon_y)

    Each column of zeta has standard deviation 1, and so has g over 20,000 draws.

    Attributes:
        seed: the seed that everything is drawn from.
        shape: the kind of g, one of `SHAPES`.
        zeta: the kind of distribution of the true inputs, one of `ZETAS`.
        errors: the kind of errors of x, one of `ERRORS`.
        n_rows: the number of rows of the training table.
        reliability: `n_x`, the variance of zeta over that of x; 1 for exact columns.
        y_noise: sigma_y over the standard deviation of g.
        correlation: `n_x x n_x`, that of the errors of x.
        g: the function of standardised true inputs.
        zetas: the distribution of standardised true inputs.
        offset: `n_x`, a.
        scale: `n_x`, s.
        y_offset: a_y.
        y_scale: s_y, the standard deviation of g in units of y.

    Examples:
        >>> problem = random_problem(3)
        >>> train, test = problem.draw(problem.n_rows, "training"), problem.draw(1000, "test")
        >>> bool(np.std(test.truth - problem.limit(test).mean) <= np.std(test.truth))
        True

    """

    seed: int
    shape: str
    zeta: str
    errors: str
    n_rows: int
    reliability: Array
    y_noise: float
    correlation: Array
    g: Ridges
    zetas: Zetas
    offset: Array
    scale: Array
    y_offset: float
    y_scale: float

    @property
    def n_columns(self) -> int:
        """n_x."""
        return len(self.offset)

    @property
    def n_noisy(self) -> int:
        """The number of columns with errors."""
        return int((self.reliability < 1).sum())

    @property
    def words(self) -> str:
        """A short description of the problem."""
        noisy = f"{self.n_noisy} of {self.n_columns} columns noisy" if self.n_columns > 1 else "1 column"
        reliable = self.reliability[self.reliability < 1].mean()
        return (
            f"{self.shape}, {self.zeta} ζ, {self.errors} errors, {noisy}, {self.n_rows} rows, reliability "
            f"{reliable:.2f}, σ_y {self.y_noise:.2f}"
        )

    def draw(self, n_rows: int, stream: Literal["training", "test"]) -> DrawnRows:
        """Rows from one of two independent streams; a smaller draw is not the beginning of a larger one."""
        random = _random(self.seed, stream)
        zeta = self.zetas.draw(n_rows, random)
        std = self._errors(n_rows, random)
        error = random.standard_normal(zeta.shape) @ np.linalg.cholesky(self.correlation).T
        truth = self.y_offset + self.y_scale * self.g(zeta)
        noise = self.y_scale * self.y_noise * random.standard_normal(n_rows)
        X = self.offset + self.scale * (zeta + std * error)
        return DrawnRows(X, self._given_form(std), truth + noise, self.offset + self.scale * zeta, truth)

    def limit(self, rows: DrawnRows, n_draws: int = N_LIMIT) -> Limit:
        """Mean and variance of g(zeta) given x, in units of y, under the true distribution of zeta.

        They are means over draws of zeta given x: from a mixture of normals in closed form, by inversion column by
        column, or by 1,000 draws of Gibbs sampling where errors of cut columns are correlated. The variance of a mean
        over K independent draws is 1 / K of that of a draw, so that the RMSE of the limit is too large by 0.1 %. Strata
        make this less, also for Gibbs sampling.
        """
        random = _random(self.seed, "limit")
        x = (rows.X - self.offset) / self.scale
        covariance = self._covariances(rows.X_err, len(x))
        parts = [slice(first, first + _AT_ONCE) for first in range(0, len(x), _AT_ONCE)]
        found = [self.g(self.zetas.given(x[part], covariance[part], n_draws, random)) for part in parts]
        mean = np.concatenate([g.mean(0) for g in found])
        variance = np.concatenate([g.var(0, ddof=1) for g in found])
        return Limit(self.y_offset + self.y_scale * mean, self.y_scale**2 * variance)

    def noise_share(self, limit: Limit) -> float:
        r"""The share of the errors of x in the variance of a label given x.

        .. math:: \frac{\mathrm{E} \, \mathrm{Var}[g \mid x]}{\mathrm{E} \, \mathrm{Var}[g \mid x] + \sigma_y^2}
        """
        from_x = float(limit.variance.mean())
        return from_x / (from_x + (self.y_scale * self.y_noise) ** 2)

    def _errors(self, n_rows: int, random: Generator) -> Array:
        """Standard deviations of the errors of standardised inputs, `rows x n_x`; all kinds have equal mean squares."""
        std = np.broadcast_to(np.sqrt(1 / self.reliability - 1), (n_rows, self.n_columns))
        if self.errors != "per row":
            return std
        s = _SPREAD_OF_ERRORS
        return np.asarray(std * np.exp(s * random.standard_normal(std.shape) - s**2))

    def _given_form(self, std: Array) -> Array:
        errors: Array = self.scale * std
        if self.errors == "per row":
            return errors
        first: Array = errors[0]
        return first if self.errors == "equal" else np.outer(first, first)[None] * self.correlation

    def _covariances(self, x_err: Array, n_rows: int) -> Array:
        """The covariances of the errors of standardised inputs, `rows x n_x x n_x`."""
        if self.errors == "correlated":
            found = x_err / np.outer(self.scale, self.scale)
        else:
            found = np.eye(self.n_columns) * np.atleast_2d((x_err / self.scale) ** 2)[:, None]
        return np.broadcast_to(found, (n_rows, self.n_columns, self.n_columns))


@functools.cache
def random_problem(seed: int) -> RandomProblem:
    """The problem of a seed.

    Args:
        seed: any whole number of at least 0; below 1,000 for development.

    Returns:
        The problem, the same at every call.

    Examples:
        >>> random_problem(5).words
        'stepped, curve ζ, correlated errors, 11 of 11 columns noisy, 496 rows, reliability 0.69, σ_y 0.09'

    """
    random = _random(seed, "problem")
    shape = _one_of(SHAPES, random)
    n_columns = _between(_COLUMNS.get(shape, (1, 20)), random)
    zeta = _one_of(ZETAS if n_columns > 1 else ZETAS[:-1], random)  # a curve needs at least two columns
    noisy = _noisy(n_columns, random)
    errors = _one_of(ERRORS if noisy.sum() > 1 else ERRORS[:-1], random)
    reliability = np.where(noisy, random.uniform(*_RELIABILITY, n_columns if random.random() < 0.5 else 1), 1.0)
    zetas, g = _zetas(zeta, n_columns, random), _ridges(shape, n_columns, random)
    spread = np.std(g(zetas.draw(_SPREAD_DRAWS, random)))
    scale = 10 ** random.uniform(-2, 2, n_columns + 1)
    offset = 3 * scale * random.standard_normal(n_columns + 1)
    return RandomProblem(
        seed=seed,
        shape=shape,
        zeta=zeta,
        errors=errors,
        n_rows=_between(_ROWS, random),
        reliability=reliability,
        y_noise=float(np.exp(random.uniform(*np.log(_Y_NOISE)))),
        correlation=_correlation(n_columns, random) if errors == "correlated" else np.eye(n_columns),
        g=replace(g, heights=g.heights / spread),
        zetas=zetas,
        offset=offset[:-1],
        scale=scale[:-1],
        y_offset=float(offset[-1]),
        y_scale=float(scale[-1]),
    )


def _random(seed: int, stream: str) -> Generator:
    return np.random.default_rng([seed, _STREAMS[stream]])


def _one_of(names: Sequence[str], random: Generator) -> str:
    return names[int(random.integers(len(names)))]


def _between(ends: tuple[int, int], random: Generator) -> int:
    """A random integer between the ends, inclusive, with a uniform logarithm."""
    return int(np.exp(random.uniform(np.log(ends[0]), np.log(ends[1] + 1))))


def _noisy(n_columns: int, random: Generator) -> NDArray[np.bool_]:
    """Whether each column has errors: all do, or in four of ten tables some of them, at least one."""
    noisy = random.random(n_columns) < (0.6 if random.random() < 0.4 else 1.0)
    noisy[random.integers(n_columns)] = True
    return noisy


def _correlation(n_columns: int, random: Generator) -> Array:
    """A correlation matrix, far from singular."""
    factor = random.standard_normal((n_columns, n_columns)) / np.sqrt(n_columns)
    covariance = factor @ factor.T + 0.5 * np.eye(n_columns)
    stds = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(stds, stds))


def _zetas(kind: str, n_columns: int, random: Generator) -> Zetas:
    if kind == "uniform":
        return CutColumns.uniform(n_columns)
    if kind == "skewed":
        return CutColumns.skewed(n_columns)
    if kind == "normal":
        return NormalMixture.standardised(np.zeros((1, n_columns)), _correlation(n_columns, random), np.ones(1))
    if kind == "bimodal":
        modes = random.standard_normal((2, n_columns))
        modes *= 3 / np.linalg.norm(modes[0] - modes[1])  # six standard deviations of a mode
        return NormalMixture.standardised(modes, 0.25 * _correlation(n_columns, random), np.array([0.6, 0.4]))
    along = np.linspace(-1.5, 1.5, _NODES)[:, None]
    curve = np.sin(along * random.uniform(0.75, 3, n_columns) + random.uniform(0, 2 * np.pi, n_columns))
    return NormalMixture.standardised(curve, 0.005 * np.eye(n_columns), np.ones(_NODES))


def _ridges(shape: str, n_columns: int, random: Generator) -> Ridges:
    if shape in ("smooth", "wiggly"):
        length = (0.35 if shape == "wiggly" else 1.6 * np.sqrt(n_columns)) * random.uniform(0.5, 2, n_columns)
        directions = random.standard_normal((_COSINES, n_columns)) / length
        return Ridges("cosine", directions, random.uniform(0, 2 * np.pi, _COSINES), random.standard_normal(_COSINES))
    n_ridges = int(random.integers(1, 4)) if shape == "stepped" else 1
    directions = random.standard_normal((n_ridges, n_columns))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if shape == "stepped":
        return Ridges("step", directions, 0.7 * random.standard_normal(n_ridges), 1 + random.random(n_ridges))
    function = "straight" if shape == "plane" else _one_of(("sine", "bend", "parabola"), random)
    return Ridges(function, directions, np.zeros(1), np.ones(1))
