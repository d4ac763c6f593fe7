"""Labels with normal noise against torch's density, closed forms and autograd."""

import pytest
import torch
from torch.distributions import Normal

from eiv.inputs import Rows
from eiv.likelihoods import NOISE_RULES, NoiseRule, NormalLikelihood
from eiv.training.objective import bound
from smallnets import CPU


def test_several_outputs_have_a_noise_each(dtype):
    f, y = torch.randn(2, 4, 5, 3, dtype=dtype), torch.randn(2, 4, 3, dtype=dtype)
    y_noise = torch.rand(2, 3, dtype=dtype) + 0.1
    expected = Normal(f, y_noise[:, None, None]).log_prob(y.unsqueeze(2)).sum(-1)
    torch.testing.assert_close(NormalLikelihood(y_noise).log_density(f, y), expected)


def test_noise_of_rows(dtype):
    y_noise = torch.tensor([[3.0]], dtype=dtype)
    likelihood = NormalLikelihood(y_noise)
    found = likelihood.noise(torch.tensor([[[4.0], [0.0]]], dtype=dtype))
    torch.testing.assert_close(found, torch.tensor([[[5.0], [3.0]]], dtype=dtype))
    assert likelihood.noise() is y_noise
    assert likelihood.noise(None) is y_noise


def test_the_chosen_zetas_give_the_gradient_of_the_bound(dtype):
    """Mean over many independent sets of candidates: the gradient with respect to a shift of f, against autograd."""
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(1, 20_000, 32, 1, generator=generator, dtype=dtype)
    y = torch.full((1, 20_000, 1), 0.7, dtype=dtype)
    likelihood = NormalLikelihood(torch.full((1, 1), 0.25, dtype=dtype))
    shift = torch.zeros((), dtype=dtype, requires_grad=True)
    (-bound(likelihood, f + shift, y)).sum().backward()
    total = torch.zeros(1, dtype=dtype)
    levels = (torch.arange(4) + torch.rand(1, 20_000, 1, generator=generator, dtype=dtype)) / 4
    chosen = likelihood.choose_zetas(f, y, None, total, 1.0, levels)
    found = likelihood.chosen_gradient(torch.take_along_dim(f, chosen.unsqueeze(-1), 2), y, None)
    # In trials the mean over 20,000 rows scatters by 0.012 about that of all candidates.
    assert found.sum().item() == pytest.approx(shift.grad.item(), abs=0.05)
    expected = -bound(likelihood, f, y) - likelihood.constant()
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=1e-5)


def test_noise_of_each_row_enters_as_it_should():
    """Rows of different noise one by one, and together."""
    f, y = torch.randn(2, 3, 5, 2, dtype=torch.float64), torch.randn(2, 3, 2, dtype=torch.float64)
    y_err = torch.rand(2, 3, 2, dtype=torch.float64)
    likelihood = NormalLikelihood(torch.rand(2, 2, dtype=torch.float64) + 0.5)
    noise = likelihood.noise(y_err)
    alone = torch.stack(
        [bound(NormalLikelihood(noise[:, i]), f[:, i : i + 1], y[:, i : i + 1]) for i in range(3)]
    ).mean(0)
    torch.testing.assert_close(bound(likelihood, f, y, y_err), alone)
    total = torch.zeros(2, dtype=torch.float64)
    needs = f.clone().requires_grad_(True)
    (-bound(likelihood, needs, y, y_err)).sum().backward()
    found = likelihood.add_loss_gradient(f.clone(), y, y_err, total, 1.0)
    torch.testing.assert_close(found, needs.grad)
    torch.testing.assert_close(total + likelihood.constant(y_err), -bound(likelihood, f, y, y_err))


def test_chosen_zetas_mend_what_as_many_plain_ones_miss():
    """f = zeta ~ N(0, 1), y = 1.2, sigma_y = 0.2: of four plain zetas one has nearly all the weight. The slope of
    -log N(y; shift, 1.04) is known; four zetas that are chosen by y from 32 come at least three times as close."""
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(1, 20_000, 32, 1, generator=generator, dtype=torch.float64)
    y, likelihood = torch.full((1, 20_000, 1), 1.2).double(), NormalLikelihood(torch.full((1, 1), 0.2).double())
    total = torch.zeros(1, dtype=torch.float64)
    plain = likelihood.add_loss_gradient(f[:, :, :4].clone(), y, None, total, 1.0).sum().item()
    levels = (torch.arange(4) + torch.rand(1, 20_000, 1, generator=generator, dtype=torch.float64)) / 4
    chosen = likelihood.choose_zetas(f, y, None, total, 1.0, levels)
    informed = likelihood.chosen_gradient(torch.take_along_dim(f, chosen.unsqueeze(-1), 2), y, None).sum().item()
    exact = -1.2 / 1.04
    assert abs(plain - exact) > 3 * abs(informed - exact)
    assert informed == pytest.approx(exact, rel=0.2)


class Given(NoiseRule):
    """Finds what it was made with."""

    def __init__(self, found):
        self.found = found

    def renewed(self, *_):
        return self.found


def test_renewing_changes_the_state_in_place(dtype):
    """Recorded steps read these tensors: density and gradients follow."""
    likelihood = NormalLikelihood(torch.ones(1, 2, dtype=dtype), Given(torch.tensor([[0.5, 2.0]], dtype=dtype)))
    held = likelihood.y_noise
    likelihood.renew(None, None, None, None, None, is_last=False)
    assert likelihood.y_noise is held
    assert held.tolist() == [[0.5, 2.0]]
    fresh = NormalLikelihood(torch.tensor([[0.5, 2.0]], dtype=dtype))
    f, y = torch.randn(1, 3, 4, 2, dtype=dtype), torch.randn(1, 3, 2, dtype=dtype)
    assert torch.equal(likelihood.log_density(f, y), fresh.log_density(f, y))
    assert torch.equal(likelihood.score(f, y), fresh.score(f, y))
    found, wanted = (each.add_loss_gradient(f.clone(), y, None, y.new_zeros(1), 1.0) for each in (likelihood, fresh))
    assert torch.equal(found, wanted)


ROWS = Rows(None, torch.zeros(2, 3, 1))


@pytest.mark.parametrize(("found", "expected"), [(0.81, 0.9), (4.0, 2.0), (0.01, 0.5**0.5)])
def test_the_split_goes_half_the_way_in_logarithm_but_not_below_a_half(found, expected):
    likelihood = NormalLikelihood(torch.ones(2, 1), Given(torch.full((2, 1), found)))
    split = likelihood.split(None, ROWS, ROWS, torch.ones(2, 3, 1), None, None)
    torch.testing.assert_close(split.y_noise, torch.full((2, 1), expected))
    assert split.rule is likelihood.rule
    assert torch.equal(likelihood.y_noise, torch.ones(2, 1))


@pytest.mark.parametrize(("known", "expected"), [(None, 3.0), (4.0, 5.0)])
def test_the_split_takes_the_epistemic_part_as_a_known_error(known, expected):
    class Seen(Given):
        def renewed(self, y_noise, posterior, learned, judged, draws, streams):
            self.judged = judged
            return super().renewed(y_noise, posterior, learned, judged, draws, streams)

    rule, judged = Seen(torch.ones(2, 1)), ROWS if known is None else ROWS._replace(y_err=torch.full((2, 3, 1), known))
    NormalLikelihood(torch.ones(2, 1), rule).split(None, ROWS, judged, torch.full((2, 3, 1), 3.0), None, None)
    torch.testing.assert_close(rule.judged.y_err, torch.full((2, 3, 1), expected))
    assert judged.y_err is None or bool((judged.y_err == known).all())


def test_a_known_noise_is_fixed_and_a_rule_makes_it_fitted():
    known = NormalLikelihood(torch.ones(2, 1))
    assert known.is_fixed
    known.renew(None, None, None, None, None, is_last=True)
    assert torch.equal(known.y_noise, torch.ones(2, 1))
    for name, rule in NOISE_RULES.items():
        fitted = NormalLikelihood(torch.ones(2, 1), rule)
        assert not fitted.is_fixed
        assert fitted.splits_error == (name == "likelihood")
        for other in (fitted.copy(), fitted.networks(slice(1)), fitted.join([fitted]), fitted.to(CPU, torch.float64)):
            assert other.rule is rule


def test_sigma_y_in_words():
    assert NormalLikelihood(torch.tensor([[3.0], [4.0]])).in_words(2.0) == "σ_y 7.071"
