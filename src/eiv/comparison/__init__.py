"""Methods side by side on a table of one's own."""

from eiv.comparison.comparing import compare
from eiv.comparison.folds import Fold, Task, run_fold
from eiv.comparison.methods import METHODS, Method, chosen_methods
from eiv.comparison.result import Comparison

__all__ = ["METHODS", "Comparison", "Fold", "Method", "Task", "chosen_methods", "compare", "run_fold"]
