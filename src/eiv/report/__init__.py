"""The page of a model: its curves, calibration, uncertainty budget, and inputs outside the training range."""

from eiv.report.page import write_model_page
from eiv.report.sample import Sample

__all__ = ["Sample", "write_model_page"]
