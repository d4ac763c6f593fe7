"""What a user would try instead of `EiVRegressor`, in the same API: one method per file."""

from eiv.baselines.boosted_trees import BoostedTrees
from eiv.baselines.gaussian_process import GaussianProcess
from eiv.baselines.least_squares import LeastSquares
from eiv.baselines.noisy_input_gp import NoisyInputGaussianProcess
from eiv.baselines.orthogonal_distance import OrthogonalDistance
from eiv.baselines.regression_calibration import RegressionCalibration
from eiv.baselines.simex import Simex
from eiv.baselines.york_line import YorkLine

__all__ = [
    "BoostedTrees",
    "GaussianProcess",
    "LeastSquares",
    "NoisyInputGaussianProcess",
    "OrthogonalDistance",
    "RegressionCalibration",
    "Simex",
    "YorkLine",
]
