"""The result of a fit."""

from eiv.model.fitted import FittedModel
from eiv.model.record import Names, Record

__all__ = ["FittedModel", "Names", "Record"]
