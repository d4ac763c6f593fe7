"""The memory limits of training and prediction.

Rows are taken in blocks, so that the memory in use does not grow with the table. Each limit is the number of values in
one block, of 4 bytes in float32 and of 8 in float64. Where CPUs and GPUs differ, there is one limit for each.

The limits of training also decide how many random numbers are drawn at a time. With another limit a fit would have
other random numbers. The predictions in `tests/golden/` would then change.
"""

from __future__ import annotations

import os

import torch

# In training.
TRAINING_PASS = 2**20  # of the widest layer, per network, in a pass that estimates sigma_y or the bound's error
RANDOM_AHEAD = {"cpu": 2**20, "cuda": 2**23}  # random numbers per network that are drawn in one go
INFORMATION_PASS = 2**21  # of the widest layer, or slopes, in a pass for Laplace's approximation
FEATURES = {"cpu": 2**24, "cuda": 2**28}  # cosines at all nodes of some rows: 128 MB, 2 GB in float64

# In predictions.
PREDICTION_PASS = {"cpu": 2**22, "cuda": 2**27}  # of the widest layer: as many as fit into a cache, or fill a GPU
LITERAL_PASS = {"cpu": 2**20, "cuda": 2**26}  # of the widest layer, in the literal Algorithm 2
DRAWS = {"cpu": 2**21, "cuda": 2**24}  # draws of f, of all networks
CLASSES = {"cpu": 2**18, "cuda": 2**24}  # probabilities of a block of thetas: on a CPU about the cache of a core
KEPT_DRAWS = 2**25  # draws of f that a prediction keeps unless the user decides
COSINES_AT_ONCE = 2**16  # on a CPU: they stay in the cache of a core
BUDGET = 2**18  # values of zetas that a core takes at once for the shares of the features
LABELS = 2**22  # draws of f from which quantiles of labels are found
CLOUD = 2**22  # of rows whose distances from the training rows are found
LAWS = 2**22  # of covariances while the laws of the errors of some rows are taken in

_BYTES_PER_VALUE = 64  # of free memory: a value of 4 bytes then takes a sixteenth of it
_LEAST_PASS = 2**16
_FREE_IF_UNKNOWN = 2**32  # bytes


def values_at_once(device: torch.device) -> int:
    """The number of values of the widest layer that a prediction may hold: at most a sixteenth of the free memory.

    Examples:
        >>> values_at_once(torch.device("cpu")) <= PREDICTION_PASS["cpu"]
        True

    """
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    else:
        try:
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):  # not a Unix
            free = _FREE_IF_UNKNOWN
    return max(_LEAST_PASS, min(free // _BYTES_PER_VALUE, PREDICTION_PASS[device.type]))
