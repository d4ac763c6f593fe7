"""The fast path of networks of cosines against the module itself."""

from __future__ import annotations

import pytest
import torch
from numpy.random import SeedSequence
from torch.func import functional_call

from eiv.engine import memory
from eiv.engine.cosines import CosineStack
from eiv.networks import CosineNetwork, NetworkStack
from eiv.networks.fast import fast_stack

SEEDS, CPU, F64 = SeedSequence(0).spawn(3), torch.device("cpu"), torch.float64


def networks(n_inputs, n_outputs):
    """Three networks with weights, scales and biases of their own."""
    stack = NetworkStack(lambda: CosineNetwork(n_inputs, n_outputs, 8), n_inputs, n_outputs, SEEDS, CPU, F64)
    random = torch.Generator().manual_seed(0)
    for value in stack.parameters.values():
        value.data = torch.randn(value.shape, generator=random, dtype=F64)
    return stack


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("n_inputs", [1, 3])
def test_it_computes_what_the_module_does(n_inputs, n_outputs, monkeypatch):
    monkeypatch.setattr(memory, "COSINES_AT_ONCE", 8 * 7)  # blocks of seven rows
    plain = networks(n_inputs, n_outputs)
    fast = fast_stack(plain)
    assert type(fast) is CosineStack
    zeta = torch.randn(3, 2, 12, n_inputs, generator=torch.Generator().manual_seed(1), dtype=F64)
    expected = plain({}, zeta)
    torch.testing.assert_close(fast({}, zeta), expected)  # with gradients
    with torch.no_grad():
        torch.testing.assert_close(fast({}, zeta), expected.detach())
    features = fast.features(zeta)
    for s in range(3):
        own = {name: value[s].detach() for name, value in plain.parameters.items()}
        head = torch.cat([own["head.weight"], own["head.bias"].unsqueeze(1)], dim=1)
        torch.testing.assert_close(
            features[s] @ head.T, functional_call(CosineNetwork(n_inputs, n_outputs, 8), own, zeta[s])
        )
        assert (features[s, ..., -1] == 1).all()


def test_bfloat16_has_no_meaning_for_it():
    with pytest.raises(ValueError, match="bfloat16"):
        fast_stack(networks(1, 1), "bfloat16")
