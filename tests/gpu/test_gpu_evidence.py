"""Networks of cosines on a GPU: float64 there as here, so that the two differ by rounding alone."""

import dataclasses

import numpy as np
import pytest
import torch

from eiv import EiVRegressor
from eiv.inputs.zeta import ZetaMixture
from eiv.training.evidence.density import log_evidence
from eiv.training.evidence.features import Family, Inputs
from eiv.training.evidence.solution import Labels, solve

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")]
F64 = torch.float64


def pieces(device, full):
    random = torch.Generator().manual_seed(0)
    means = torch.randn(200, 2, 3, generator=random, dtype=F64)
    scales = 0.3 * torch.randn(200, 2, 3, 3, generator=random, dtype=F64)
    scales = scales @ scales.mT if full else scales.diagonal(dim1=-2, dim2=-1).abs()
    zeta = ZetaMixture.of(torch.zeros(200, 2, dtype=F64), means, scales)
    y = torch.randn(200, 1, generator=random, dtype=F64).to(device)
    family = Family(3, 1, 1, 32, seed=0)
    flat = 0.3 * torch.randn(family.n_values, generator=random, dtype=F64)
    return family, family.values(flat.to(device)), family.draws(y), Inputs(zeta.to(device, F64)), Labels(y, 0.1 + 0 * y)


@pytest.mark.parametrize("full", [True, False])
def test_evidence_and_weights_are_those_of_the_cpu(full):
    here, there = pieces(torch.device("cpu"), full), pieces(torch.device("cuda"), full)
    torch.testing.assert_close(log_evidence(*there).cpu(), log_evidence(*here), rtol=1e-9, atol=0)
    # Fisher's scoring stops where it gains little: rounding may let it stop a step earlier.
    for name, value in dataclasses.asdict(solve(*here)).items():
        torch.testing.assert_close(getattr(solve(*there), name).cpu(), value, rtol=1e-4, atol=1e-6)


def test_a_fit_is_that_of_the_cpu():
    """The search climbs to the same place, but for where it stops: a few thousandths of the spread of y."""
    random = np.random.default_rng(0)
    zeta = random.normal(size=(300, 3))
    X, y = zeta + 0.3 * random.normal(size=zeta.shape), np.sin(zeta[:, 0]) + zeta[:, 1] + 0.2 * random.normal(size=300)
    here, there = (
        EiVRegressor(0.3, network="cosine", random_state=0, device=device).fit(X, y) for device in ("cpu", "cuda")
    )
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=0.02)
    np.testing.assert_allclose(there.y_noise_, here.y_noise_, rtol=0.05)
