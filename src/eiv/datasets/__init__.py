"""Data sets: the paper's simulated problems, whose truth is known, and the nine real ones."""

from eiv.datasets.real import REAL, DataNotFoundError, RealData, load, overview
from eiv.datasets.simulated import SIMULATED, Simulated, simulate

__all__ = ["REAL", "SIMULATED", "DataNotFoundError", "RealData", "Simulated", "load", "overview", "simulate"]
