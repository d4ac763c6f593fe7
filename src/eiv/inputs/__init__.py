"""What is known of the true input: its error, its prior, and its posterior given the measured x."""

from eiv.inputs.cloud import TrainingCloud
from eiv.inputs.draws import MOVED_ZETAS, ZETA_DRAWS, ZetaDraws
from eiv.inputs.errors import RelativeError, relative
from eiv.inputs.lawfits import law_from_pairs, law_from_repeats
from eiv.inputs.laws import (
    Censored,
    ErrorLaw,
    Growing,
    MixtureLaw,
    NormalLaw,
    Rectangular,
    SplitNormal,
    StudentT,
    Triangular,
    censored,
    growing,
    rectangular,
    split_normal,
    student_t,
    triangular,
)
from eiv.inputs.learned import LearnedPrior
from eiv.inputs.mixed import MixedErrors
from eiv.inputs.mixture import MixturePrior
from eiv.inputs.plausible import SuspiciousErrorWarning
from eiv.inputs.priors import FlatPrior, InputPrior, NormalPrior
from eiv.inputs.repeats import Repeats, errors_from_repeats
from eiv.inputs.rounding import LostPrecisionWarning
from eiv.inputs.rows import Rows
from eiv.inputs.sizes import EstimatedError, LearnedSizes, SizeNode, SizePrior, estimated
from eiv.inputs.zeta import ZetaMixture, ZetaNormal, ZetaPosterior, ZetaTable

__all__ = [
    "LAW_KINDS",
    "MOVED_ZETAS",
    "PRIORS",
    "PRIOR_KINDS",
    "ZETA_DRAWS",
    "ErrorLaw",
    "EstimatedError",
    "FlatPrior",
    "InputPrior",
    "LearnedPrior",
    "LearnedSizes",
    "LostPrecisionWarning",
    "MixedErrors",
    "MixturePrior",
    "NormalPrior",
    "RelativeError",
    "Repeats",
    "Rows",
    "SizeNode",
    "SizePrior",
    "SuspiciousErrorWarning",
    "TrainingCloud",
    "ZetaDraws",
    "ZetaMixture",
    "ZetaNormal",
    "ZetaPosterior",
    "ZetaTable",
    "censored",
    "errors_from_repeats",
    "estimated",
    "growing",
    "law_from_pairs",
    "law_from_repeats",
    "rectangular",
    "relative",
    "split_normal",
    "student_t",
    "triangular",
]

PRIORS: dict[str, InputPrior | LearnedPrior] = {
    "flat": FlatPrior(),  # Lemma 1
    "normal": LearnedPrior(max_components=1),  # appendix A.2, with mean and covariance learned from X and its errors
    "mixture": LearnedPrior(),  # a Gaussian mixture, learned likewise
}
"""Input priors that a user can ask for by name."""

PRIOR_KINDS: dict[str, type] = {
    "flat_prior": FlatPrior,
    "normal_prior": NormalPrior,
    "mixture_prior": MixturePrior,
    "learned_prior": LearnedPrior,
}
"""Kinds of input priors that model files hold, by the name they have there; dataclasses of numbers."""

LAW_KINDS: dict[str, type[ErrorLaw]] = {
    "normal_law": NormalLaw,
    "rectangular_law": Rectangular,
    "triangular_law": Triangular,
    "student_t_law": StudentT,
    "split_normal_law": SplitNormal,
    "growing_law": Growing,
    "mixture_law": MixtureLaw,
    "censored_law": Censored,
}
"""Laws of errors that model files hold, by the name they have there; dataclasses of numbers."""
