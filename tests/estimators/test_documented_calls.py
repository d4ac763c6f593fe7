"""What is typed also runs."""

import numpy as np
import pandas as pd
import pytest
from documented_calls import call_all


@pytest.mark.filterwarnings("ignore::eiv.UnlikeRowsWarning")
@pytest.mark.parametrize("flag", [True, False])
def test_the_documented_calls_run(flag):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(30, 2)), columns=["a", "b"]).assign(a_err=0.1)
    found = call_all(X, X["a"].to_numpy() + 0.1 * random.standard_normal(30), flag)
    assert [len(p) for p in found] == [1, 2, 2, 2, 29]
