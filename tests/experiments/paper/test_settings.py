"""Tables sim_data and network_and_training against a second typing of the paper's."""

from eiv.datasets import SIMULATED
from eiv.experiments.paper.settings import COMMON, PROFILES, TRAIN_SHARE, TRAINING

NETWORK_AND_TRAINING = """
yacht       1024  0.2  1e-3   32  1200  0.05   0.5   500
naval       1024  0.2  1e-3   32    30  0.025  0.5    14
linear       128  0.1  1e-3   16   100  0.1    0.1    40
protein     1024  0.2  1e-3  100    30  0.05   0.5    14
concrete    1024  0.2  1e-3   32   100  0.05   0.5    40
kin8nm      1024  0.2  1e-3   32    30  0.05   0.5    14
wine        1024  0.2  1e-3   32   100  0.05   0.5    40
quadratic    128  0.1  1e-3   16   100  0.1    0.1    40
power       1024  0.2  1e-3   64    35  0.05   0.5    15
sine         128  0.1  1e-3   16   100  0.04   0.01   40
energy      1024  0.2  1e-3   32   600  0.05   0.5   250
california  1024  0.1  1e-3  200   100  0.05   0.5    40
cubic        128  0.1  1e-3   16   100  0.2    0.05   40
"""
SIM_DATA = """
linear     -1    1    0.1   0.2    500
quadratic  -1    1    0.1   0.1    500
cubic      -1    1    0.2   0.05  1000
sine       -0.2  0.8  0.04  0.01  2000
"""


def rows(table):
    return {name: tuple(map(float, values)) for name, *values in map(str.split, table.split("\n")[1:-1])}


def test_network_and_training():
    typed = {name: tuple(map(float, vars(row).values())) for name, row in TRAINING.items()}
    assert typed == rows(NETWORK_AND_TRAINING)


def test_sim_data():
    typed = {name: (*p.zeta_range, p.x_err, p.y_noise, float(p.n_rows)) for name, p in SIMULATED.items()}
    assert typed == rows(SIM_DATA)


def test_simulated_sets_are_trained_with_the_error_they_were_made_with():
    for name, problem in SIMULATED.items():
        assert TRAINING[name].x_err == problem.x_err


def test_what_the_text_fixes_for_all_sets():
    assert (COMMON["weight_penalty"], COMMON["n_hidden"]) == (10, 4)
    assert (COMMON["n_zeta"], COMMON["n_theta"]) == (5, 100)
    assert TRAIN_SHARE == 0.8


def test_profiles():
    assert set(PROFILES["full"].sets) == set(TRAINING)
    assert PROFILES["full"].n_networks == 10
    assert set(PROFILES["quick"].sets) == set(SIMULATED)
