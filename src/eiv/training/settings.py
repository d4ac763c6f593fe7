"""Settings of a fit: each once, with its check, the paper's value, the default and its sentence; and the recipes."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from eiv import validation as v
from eiv.engine.products import PRECISIONS
from eiv.inputs import MOVED_ZETAS, PRIORS, ZETA_DRAWS, InputPrior, LearnedPrior
from eiv.likelihoods import LIKELIHOODS, NOISE_RULES, Likelihood, NoiseRule
from eiv.posteriors import FAMILIES, WeightPosterior

__all__ = ["RECIPES", "SETTINGS", "Setting", "Settings", "settings_for"]

NETWORKS = ("paper", "cosine")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
_FAMILY = v.Constraint(
    lambda value: _is_own(value, WeightPosterior) and not hasattr(value, "stack"),
    "a subclass of eiv.posteriors.WeightPosterior, or an object of one that has no networks yet",
)
AUTO = "auto"  # the data decide
_LIKELIHOOD = v.Constraint(
    lambda value: _is_own(value, Likelihood) and isinstance(value, type) == _starts_from_class(value),
    "a subclass of eiv.likelihoods.Likelihood, or an object of one whose `start` is an ordinary method",
)
_RULE = v.Constraint(lambda value: isinstance(value, NoiseRule), "an eiv.likelihoods.NoiseRule")
_PRIOR = v.Constraint(
    lambda value: not isinstance(value, type) and (hasattr(value, "posterior") or hasattr(value, "fit")),
    "an input prior such as eiv.NormalPrior(std=1.0)",
)
_MODULE = v.Constraint(
    lambda value: value is None or (callable(value) and not isinstance(value, nn.Module)),
    "a callable (n_inputs, n_outputs) -> torch.nn.Module, or None (a network of fixed shape: module=lambda n_inputs, "
    "n_outputs: ...)",
)
_DEVICE = v.Constraint(lambda value: value == "auto" or _is_device(value), "'auto', 'cpu', 'cuda' or 'cuda:N'")


def _is_own(value: Any, kind: type) -> bool:
    """Whether a value is a subclass of `kind`, or an object of one."""
    return issubclass(value, kind) if isinstance(value, type) else isinstance(value, kind)


def _starts_from_class(value: Any) -> bool:
    """Whether a likelihood is started by a class method, which would lose the parameters of an object."""
    return isinstance(inspect.getattr_static(value, "start"), classmethod)


def _is_device(value: Any) -> bool:
    """Whether torch knows such a device, and it is a CPU or a GPU."""
    try:
        return torch.device(value).type in ("cpu", "cuda")
    except (RuntimeError, TypeError):
        return False


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting: what it may be, its value in the paper and by default, and its sentence.

    `of_recipe` says that None, in an estimator, stands for the value of the recipe; a default of None then stands for a
    number that depends on the rows.

    Examples:
        >>> SETTINGS["weight_penalty"].paper, SETTINGS["weight_penalty"].default
        (10.0, 1.0)

    """

    check: v.Constraint
    text: str
    paper: Any
    default: Any
    of_recipe: bool

    @property
    def constraint(self) -> v.Constraint:
        """What an estimator's argument may be."""
        return v.or_none(self.check) if self.of_recipe else self.check


def of_recipe(check: v.Constraint, text: str, *, paper: Any, default: Any) -> Any:
    """A setting that a recipe decides where the user does not."""
    return dataclasses.field(metadata={"setting": Setting(check, text, paper, default, of_recipe=True)})


def fixed(check: v.Constraint, text: str, value: Any) -> Any:
    """A setting that no recipe decides."""
    return dataclasses.field(metadata={"setting": Setting(check, text, value, value, of_recipe=False)})


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a fit, each as the user or the recipe says. `Arguments` has each as an estimator's argument.

    Examples:
        >>> settings_for({"recipe": "paper", "epochs": 7}, n_rows=500).epochs
        7
        >>> SETTINGS["epochs"].paper
        100

    """

    recipe: str = fixed(
        v.option("default", "paper"),
        'what holds for the arguments that are None: "default", which serves tables of 60 to 100,000 rows '
        'without tuning, or "paper", the settings of the paper; see `eiv.training.settings`.',
        "default",
    )
    error_model: str = fixed(
        v.option("classical", "berkson"),
        '"classical", x scatters around the true input; or "berkson", x was set and the true input scatters '
        "around it, so that zeta given x is N(x, x_err^2) whatever `input_prior` says.",
        "classical",
    )
    input_prior: Any = of_recipe(
        v.either(v.option(*PRIORS), _PRIOR),
        "what is believed of the true input before x is seen: a name of `eiv.inputs.PRIORS`, such as "
        '"mixture" (the default: a Gaussian mixture learned from X and its errors) and "flat" (the paper, '
        "Lemma 1); or an object such as `eiv.NormalPrior(std, mean)`, `eiv.MixturePrior` or `eiv.LearnedPrior`.",
        paper="flat",
        default="mixture",
    )
    missing: str = fixed(
        v.option("refuse", "integrate"),
        'what NaN in X means: "refuse" (the default), an error; or "integrate", a reading that is missing, whose true '
        "value is integrated over the learned prior given the other columns.",
        "refuse",
    )
    x_err_factor: float = of_recipe(
        v.either(v.option("auto"), v.real(0)),
        "what the stated errors of X are multiplied by, in the fit and in predictions: a number, 0 to ignore them, or "
        '"auto" (the default). That is 1; with a warning it is 0.5, 0.25 or 0 where cosines make the labels more '
        "probable by e^5 with such a factor, and 0 where left-out labels are clearly predicted better without errors.",
        paper=1.0,
        default="auto",
    )
    zeta_draws: str = of_recipe(
        v.option("auto", *ZETA_DRAWS, *MOVED_ZETAS),
        'how training integrates over the true input: "monte_carlo" (the paper), "antithetic", "stratified", '
        '"sobol", "informed" (those of `n_zeta` candidates that explain y), "gauss_hermite" (`n_zeta` nodes '
        'along each noisy feature, for at most three of them), "interpolated" (for one noisy feature: f is taken as '
        'straight between `n_zeta` nodes), "profile" or "laplace" (the true input of each row is moved with the '
        'weights; for a flat or normal `input_prior`), or "auto" (the default): "interpolated" for one noisy feature, '
        'else "informed"; see `eiv.inputs.ZetaDraws`. Predictions do not depend on it: their zetas follow a rule or '
        "are matched.",
        paper="monte_carlo",
        default="auto",
    )
    posterior: Any = of_recipe(
        v.either(v.option(*FAMILIES), _FAMILY),
        "the family of the weight posterior: a name of `eiv.posteriors.FAMILIES`, such as "
        '"linearised_laplace" (the default) and "bernoulli_dropout" (the paper), or a subclass of '
        "`eiv.posteriors.WeightPosterior` of your own, or an object of it. Each family says in its docstring what it "
        "learns, costs and misses; `docs/method.md` compares them.",
        paper="bernoulli_dropout",
        default="linearised_laplace",
    )
    module: Callable[[int, int], nn.Module] | None = fixed(
        _MODULE,
        "a callable `(n_inputs, n_outputs) -> torch.nn.Module`, with dropout layers of its own for the "
        "dropout families, or None for the paper's network.",
        None,
    )
    network: str = of_recipe(
        v.option("auto", *NETWORKS),
        'the kind of network: "paper", hidden layers of leaky ReLU, trained by steps; "cosine", one layer of '
        "`hidden_units` cosines, a Gaussian process in the limit, whose length scales, strength and sigma_y are those "
        'that make the labels most probable, without steps and without held-out rows; or "auto" (the default): '
        '"cosine" where 1 to 50 features are noisy and no argument is given that only the other one has; of more than '
        "3,000 rows, the kind that does better on rows held out.",
        paper="paper",
        default="auto",
    )
    hidden_units: int = of_recipe(
        v.integer(1, 10**5),
        "units of each hidden layer, 128 by default; for network='cosine' cosines, 256 or more by default.",
        paper=128,
        default=None,
    )
    n_hidden: int = of_recipe(
        v.integer(1, 100),
        "number of hidden layers; 4 by default.",
        paper=4,
        default=4,
    )
    dropout: float = of_recipe(
        v.real(0, below=1),
        "p of the paper's network, for the dropout families; where rates are learned, or weights are normal, "
        "what they start from.",
        paper=0.1,
        default=0.0,
    )
    weight_penalty: float = of_recipe(
        v.real(0),
        "1 / (2 lambda_theta^2), the strength of the prior of the weights; 1 by default.",
        paper=10.0,
        default=1.0,
    )
    epochs: int = of_recipe(
        v.integer(1, 10**6),
        "how often training visits each row; by default as often as makes 5,000 steps, ten times at least.",
        paper=100,
        default=None,
    )
    batch_size: int = of_recipe(
        v.integer(1, 10**9),
        "rows of a minibatch; 64 by default, more from 5,000 rows on.",
        paper=16,
        default=None,
    )
    learning_rate: float = of_recipe(
        v.real(0, exclusive=True),
        "Adam's step size; 0.001 by default.",
        paper=0.001,
        default=0.001,
    )
    learning_rate_decay: float = of_recipe(
        v.real(0, maximum=1),
        "the share of the training, at its end, over which the step size falls linearly to zero; 0 leaves it "
        "as it is; 0.6 by default.",
        paper=0.0,
        default=0.6,
    )
    y_noise: Any = of_recipe(
        v.either(v.option(*NOISE_RULES), v.real(0, exclusive=True), _RULE),
        "sigma_y, the noise of the output: a known value in units of y, or the rule that finds it. That is a "
        'name of `eiv.likelihoods.NOISE_RULES`, such as "likelihood" (the default: what maximises the bound) and '
        '"rmse" (the paper: the RMSE of m(x)), or an `eiv.likelihoods.NoiseRule` of your own.',
        paper="rmse",
        default="likelihood",
    )
    likelihood: Any = of_recipe(
        v.either(v.option(*LIKELIHOODS, AUTO), _LIKELIHOOD),
        'how labels scatter about f: a name of `eiv.likelihoods.LIKELIHOODS`, such as "normal" (the paper, and '
        "the default), or a subclass of `eiv.likelihoods.Likelihood` of your own, or an object of it; `docs/noise.md` "
        "says which one when. "
        "The word auto compares them on held-out rows, and takes another than normal noise where that is clearly "
        "better.",
        paper="normal",
        default="normal",
    )
    y_noise_init: float = of_recipe(
        v.real(0, exclusive=True),
        "sigma_y before its first update, as a share of the spread of y (in units of y where `standardise` is False).",
        paper=0.5,
        default=0.5,
    )
    y_noise_every: int = of_recipe(
        v.integer(1, 10**6),
        "sigma_y is renewed every this many epochs, and once at the end if there are fewer; by default thirty "
        "times in a training.",
        paper=40,
        default=None,
    )
    held_out: float = of_recipe(
        v.real(0, below=1),
        "the share of the rows that a network does not learn from, so that it does not take its own overfitting for "
        "precision: 20 to 1,000 rows, at most a fifth of all, and none of fewer than 25. sigma_y by "
        '"likelihood" comes from the learned rows, unless the held-out rows disagree. Where the covariance of the '
        'weights is found after training, the variance that it explains is subtracted. By "rmse" and "residual" '
        "sigma_y comes from the held-out rows alone. 0.1 by default, 0 in the paper.",
        paper=0.0,
        default=0.1,
    )
    n_zeta: int | None = of_recipe(
        v.integer(1, 10**4),
        "L, draws of the true input per row in training. A prediction takes as many for each of its blocks, "
        "two at least and five at most.",
        paper=5,
        default=None,
    )
    n_theta: int = of_recipe(
        v.integer(2, 10**5),
        "K, draws of the weights per network in a prediction; 100 by default, 40 for each network of cosines.",
        paper=100,
        default=None,
    )
    n_networks: int = fixed(
        v.integer(1, 1000),
        "networks that are trained and whose draws are pooled.",
        1,
    )
    standardise: bool = fixed(
        v.flag(),
        "whether X and y are brought to mean 0 and standard deviation 1 first, and their errors with them.",
        True,
    )
    device: str = fixed(
        _DEVICE,
        '"auto" (a GPU where there is one), "cpu", "cuda" or "cuda:N".',
        "auto",
    )
    dtype: str = fixed(
        v.option(*DTYPES),
        '"float32" or "float64".',
        "float32",
    )
    precision: str = fixed(
        v.option(*PRECISIONS),
        'of the matrix products in training. "auto": TF32 on a GPU, float32 on the CPU; "float32": that '
        'everywhere; "bfloat16": operands rounded to 8 bits, faster for wide networks (see '
        "`docs/benchmarks.md`).",
        "auto",
    )
    verbose: bool = fixed(
        v.flag(),
        "whether training shows a progress bar.",
        False,
    )


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Arguments:
    """The settings as arguments of both estimators; None stands for what the recipe says.

    Examples:
        >>> from eiv import EiVRegressor
        >>> issubclass(EiVRegressor, Arguments)
        True

    """

    recipe: Literal["default", "paper"] = "default"
    error_model: Literal["classical", "berkson"] = "classical"
    input_prior: str | InputPrior | LearnedPrior | None = None
    missing: Literal["refuse", "integrate"] = "refuse"
    x_err_factor: float | Literal["auto"] | None = None
    zeta_draws: str | None = None
    posterior: str | type[WeightPosterior] | WeightPosterior | None = None
    module: Callable[[int, int], nn.Module] | None = None
    network: str | None = None
    hidden_units: int | None = None
    n_hidden: int | None = None
    dropout: float | None = None
    weight_penalty: float | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    learning_rate_decay: float | None = None
    n_zeta: int | None = None
    n_theta: int | None = None
    n_networks: int = 1
    standardise: bool = True
    device: str = "auto"
    dtype: str = "float32"
    precision: str = "auto"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ArgumentsForNumbers(Arguments):
    """Those of `EiVRegressor`, whose labels scatter by a sigma_y; classes have none.

    Examples:
        >>> sorted(vars(ArgumentsForNumbers()).keys() - vars(Arguments()).keys())
        ['held_out', 'likelihood', 'y_noise', 'y_noise_every', 'y_noise_init']

    """

    y_noise: str | float | NoiseRule | None = None
    likelihood: str | type[Likelihood] | Likelihood | None = None
    y_noise_init: float | None = None
    y_noise_every: int | None = None
    held_out: float | None = None


SETTINGS: dict[str, Setting] = {field.name: field.metadata["setting"] for field in dataclasses.fields(Settings)}
# docs/method.md says why the default is what it is; `eiv study coverage` compares it with the paper's.
RECIPES: dict[str, dict[str, Any]] = {
    "default": {name: setting.default for name, setting in SETTINGS.items()},
    "paper": {name: setting.paper for name, setting in SETTINGS.items()} | {"recipe": "paper"},
}
# As many steps on 100 rows as on 10,000.
_STEPS, _FEWEST_EPOCHS = 5000, 10
_BATCH, _ROWS_OF_BATCH = 64, 5000  # rows of a minibatch, and of a table up to which it is not larger
_NOISE_UPDATES = 30  # of sigma_y in a training
_UNITS = 128  # of a hidden layer
_COSINES, _MOST_COSINES, _ROWS_PER_COSINE = 256, 512, 16
_THETAS, _THETAS_OF_COSINES = 100, 40  # of a network in a prediction; eight networks of cosines stand for one
_MOST_NOISY = 50  # features whose errors are integrated over by nodes
# A network of cosines has no steps, so that these have no meaning; its weights are normal with a variance of one.
_OF_STEPS = (
    "module", "n_hidden", "dropout", "weight_penalty", "epochs", "batch_size", "learning_rate", "learning_rate_decay",
    "y_noise_init", "y_noise_every", "held_out", "n_zeta", "zeta_draws",
)  # fmt: skip
_BY_EVIDENCE = {"posterior": "last_layer_laplace", "weight_penalty": 0.5, "n_hidden": 1, "held_out": 0.0, "epochs": 1}


def _by_rows(settings: dict[str, Any], n_rows: int) -> dict[str, Any]:
    """What depends on the rows of a table, or on the kind of network, where it is not given."""
    if settings["network"] == "cosine":
        cosines = min(max(_COSINES, n_rows // _ROWS_PER_COSINE), _MOST_COSINES)
        settings = settings | _BY_EVIDENCE | {"hidden_units": settings["hidden_units"] or cosines}
        settings["n_theta"] = settings["n_theta"] or _THETAS_OF_COSINES
    settings = settings | {
        "hidden_units": settings["hidden_units"] or _UNITS,
        "n_theta": settings["n_theta"] or _THETAS,
    }
    batch_size = settings["batch_size"] or round(_BATCH * max(1.0, n_rows / _ROWS_OF_BATCH) ** 0.5)
    epochs = settings["epochs"] or max(_FEWEST_EPOCHS, math.ceil(_STEPS / math.ceil(n_rows / batch_size)))
    every = settings["y_noise_every"] or max(1, epochs // _NOISE_UPDATES)
    if not settings["epochs"]:
        epochs = every * math.ceil(epochs / every)  # sigma_y is renewed at the very end
    return settings | {"batch_size": batch_size, "epochs": epochs, "y_noise_every": every}


def settings_for(arguments: Mapping[str, Any], n_rows: int, n_noisy: int = 0) -> Settings:
    r"""The settings of a fit: what the arguments say, and else the recipe.

    .. math:: \text{batch} = 64 \max\Big(1, \sqrt{N / 5000}\Big), \qquad
              \text{epochs} = \max\big(10, \lceil 5000 / \lceil N / \text{batch} \rceil \rceil\big)

    Args:
        arguments: of `EiVRegressor`, `recipe` among them; None stands for what the recipe says.
        n_rows: N, the rows of the training data.
        n_noisy: features with an error.

    Returns:
        All settings.

    Raises:
        ValueError: where an argument has no meaning for the kind of network.

    Examples:
        >>> settings_for({"recipe": "default"}, n_rows=500).epochs
        640
        >>> settings_for({"recipe": "default"}, n_rows=100_000).batch_size
        286
        >>> settings_for({"recipe": "default"}, n_rows=500, n_noisy=3).network
        'cosine'

    """
    values = RECIPES[arguments["recipe"]]
    given = {name: arguments[name] for name in SETTINGS if arguments.get(name) is not None}
    settings = values | given
    if settings["network"] == "auto":
        noisy = 0 < n_noisy <= _MOST_NOISY and not _of_steps(arguments) and "hidden_units" not in given
        settings["network"] = "cosine" if noisy else "paper"
    for name, plain in (("x_err_factor", 1.0), ("likelihood", "normal")):
        if settings[name] == AUTO:  # `eiv.training.choosing` compares others with it
            settings[name] = plain
    return Settings(**_by_rows(settings, n_rows))


def check_kind(arguments: Mapping[str, Any]) -> None:
    """Raise a ValueError for an argument that has no meaning for the kind of network, or a class that lacks methods."""
    for name in ("posterior", "likelihood"):
        value: Any = arguments.get(name)
        if inspect.isabstract(value):
            lacking = ", ".join(sorted(value.__abstractmethods__))
            raise ValueError(f"{name}: {value.__name__} has to define {lacking}, which are abstract.")
    if arguments.get("network") == "cosine" and (given := _of_steps(arguments)):
        name = given[0]
        raise ValueError(
            f"{name}: {arguments[name]!r} has no meaning for network='cosine', which is fitted without steps. Leave it "
            "out, or choose network='paper'."
        )
    y_noise = RECIPES[arguments["recipe"]]["y_noise"] if arguments.get("y_noise") is None else arguments["y_noise"]
    if arguments.get("likelihood") == AUTO and y_noise != "likelihood":
        raise ValueError(
            f"likelihood: 'auto' compares likelihoods that find their noise by the bound, but y_noise is {y_noise!r}. "
            "Take y_noise='likelihood', or choose a likelihood."
        )


def _of_steps(arguments: Mapping[str, Any]) -> list[str]:
    """The arguments that have no meaning for a network of cosines."""
    found = [name for name in _OF_STEPS if arguments.get(name) is not None]
    own_rule = isinstance(arguments.get("y_noise"), NoiseRule)
    meant: dict[str, tuple[Any, ...]] = {
        "recipe": ("default",),
        "posterior": (_BY_EVIDENCE["posterior"],),
        "likelihood": ("normal",),
        "precision": ("auto", "float32"),
    }
    if own_rule or arguments.get("y_noise") in set(NOISE_RULES) - {"likelihood"}:
        found.append("y_noise")
    return found + [name for name, values in meant.items() if arguments.get(name) not in (None, *values)]
