"""Data sets: the paper's simulated problems, whose truth is known."""

from eiv.datasets.simulated import SIMULATED, Simulated, simulate

__all__ = ["SIMULATED", "Simulated", "simulate"]
