"""The page of a model: its curves, calibration, uncertainty budget, and inputs outside the training range."""

from typing import TYPE_CHECKING

from eiv.extras import on_first_use

if TYPE_CHECKING:
    from eiv.report.page import write_model_page
    from eiv.report.sample import Sample

__all__ = ["Sample", "write_model_page"]

__getattr__ = on_first_use(__name__, {"eiv.report.page": ("write_model_page",), "eiv.report.sample": ("Sample",)})
