"""Data sets: the four simulated problems of the paper, whose truth is known, and the nine real sets."""

from eiv.datasets.real import REAL, DataNotFoundError, RealData, load, overview
from eiv.datasets.simulated import SIMULATED, Simulated, simulate

__all__ = ["REAL", "SIMULATED", "DataNotFoundError", "RealData", "Simulated", "load", "overview", "simulate"]
