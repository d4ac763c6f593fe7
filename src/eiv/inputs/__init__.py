"""What is known of the true input: its error, its prior, and its posterior given the measured x."""

from eiv.inputs.priors import FlatPrior, InputPrior, NormalPrior
from eiv.inputs.zeta import ZetaPosterior

__all__ = ["FlatPrior", "InputPrior", "NormalPrior", "ZetaPosterior"]
