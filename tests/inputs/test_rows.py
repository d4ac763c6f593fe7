"""Rows as the networks see them: chosen ones, parts of them, and those of several networks."""

import pytest
import torch

from eiv.inputs import FlatPrior, MixturePrior, Rows, ZetaNormal, ZetaPosterior
from eiv.inputs.rows import stack_rows

with_and_without_errors = pytest.mark.parametrize("known", [False, True], ids=["", "y_err"])


def rows(known, dtype=torch.float64, seed=0):
    """Two networks, seven rows, two inputs, three outputs."""
    random = torch.Generator().manual_seed(seed)
    x, std = torch.randn(2, 7, 2, generator=random), torch.rand(2, 7, 2, generator=random)
    y, y_err = torch.randn(2, 7, 3, generator=random), torch.rand(2, 7, 3, generator=random)
    return Rows(ZetaNormal(x.to(dtype), std.to(dtype)), y.to(dtype), y_err.to(dtype) if known else None)


@with_and_without_errors
def test_each_network_takes_rows_of_its_own(known, dtype):
    table = rows(known, dtype)
    chosen = torch.tensor([[0, 6, 2], [5, 5, 1]])
    taken = table.take(chosen)
    for s in range(2):
        assert torch.equal(taken.y[s], table.y[s, chosen[s]])
        assert torch.equal(taken.inputs.mean[s], table.inputs.mean[s, chosen[s]])
        assert torch.equal(taken.inputs.std[s], table.inputs.std[s, chosen[s]])
        if known:
            assert torch.equal(taken.y_err[s], table.y_err[s, chosen[s]])
    assert (taken.y_err is None) == (not known)


@with_and_without_errors
def test_rows_between_two_places(known, dtype):
    table = rows(known, dtype)
    part = table.between(2, 5)
    expected = table.take(torch.arange(2, 5).expand(2, -1))
    for found, wanted in zip(part, expected, strict=True):
        if isinstance(found, ZetaPosterior):
            assert torch.equal(found.mean, wanted.mean)
            assert torch.equal(found.std, wanted.std)
        else:
            assert found is wanted is None or torch.equal(found, wanted)
    assert table.between(5, 100).y.shape[1] == 2


def test_one_error_for_all_rows_serves_those_taken():
    x = torch.randn(2, 7, 1)
    table = Rows(ZetaNormal(x, torch.full((2, 1, 1), 0.3)), x)
    noise = torch.ones(2, 3, 1, 1)
    for part in (table.take(torch.tensor([[0, 1, 2], [4, 5, 6]])), table.between(0, 3)):
        torch.testing.assert_close(part.inputs.draw(noise), part.inputs.mean.unsqueeze(2) + 0.3)


@with_and_without_errors
@pytest.mark.parametrize("prior", [FlatPrior(), MixturePrior([1, 2], [[-1.0, 0.0], [1.0, 0.5]], [[0.3, 0.2]] * 2)])
def test_stacked_rows_are_those_of_each_network(known, prior, dtype):
    alone = []
    for seed in range(3):
        random = torch.Generator().manual_seed(seed)
        x, std = torch.randn(5, 2, generator=random, dtype=dtype), torch.rand(5, 2, generator=random, dtype=dtype)
        y, y_err = torch.randn(5, 1, generator=random, dtype=dtype), torch.rand(5, 1, generator=random, dtype=dtype)
        alone.append(Rows(prior.posterior(x, std), y, y_err if known else None))
    stacked = stack_rows(alone)
    assert stacked.y.shape == (3, 5, 1)
    assert stacked.y.dtype == dtype
    assert (stacked.y_err is None) == (not known)
    noise = torch.randn(3, 5, 4, stacked.inputs.n_base, dtype=dtype)
    zeta = stacked.inputs.draw(noise)
    for s, own in enumerate(alone):
        assert torch.equal(stacked.y[s], own.y)
        torch.testing.assert_close(zeta[s], own.inputs.draw(noise[s]))
        if known:
            assert torch.equal(stacked.y_err[s], own.y_err)
