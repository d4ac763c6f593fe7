"""Weights of rows, correlations of noise and budgets of entropy on a GPU: the same as on the CPU."""

import numpy as np
import pytest
import torch
from devices import CPU, DEVICE, MARKS
from numpy.random import SeedSequence

from eiv import EiVClassifier, EiVRegressor
from eiv.inputs import ZetaNormal
from eiv.likelihoods import NOISE_RULES, NormalLikelihood
from eiv.likelihoods.correlation import fit_correlation
from eiv.likelihoods.noise import Outputs
from eiv.networks import NetworkStack, paper_network
from eiv.posteriors import BernoulliDropout
from eiv.prediction.classbudget import EntropyBudgetSampler
from eiv.training.blocks import by_weight
from eiv.training.evidence.density import log_evidence
from eiv.training.evidence.features import Family, Inputs
from eiv.training.evidence.solution import Labels, solve

pytestmark = MARKS
F64 = torch.float64
RANDOM = torch.Generator().manual_seed(0)
X, Y = torch.randn(80, 2, generator=RANDOM, dtype=F64), torch.randn(80, 2, generator=RANDOM, dtype=F64)
WEIGHTS = 0.2 + 2 * torch.rand(80, generator=RANDOM, dtype=F64)


def test_evidence_and_weights_of_weighted_rows():
    family = Family(2, 2, 0, 16, seed=0)
    flat = 0.3 * torch.randn(family.n_values, generator=torch.Generator().manual_seed(1), dtype=F64)
    found = []
    for device in (CPU, DEVICE):
        labels = Labels(Y.to(device), 0 * Y.to(device), WEIGHTS.to(device))
        inputs = Inputs(ZetaNormal(X, torch.full_like(X, 0.2)).to(device, F64))
        parts = family, family.values(flat.to(device)), family.draws(labels.y), inputs, labels
        found.append([log_evidence(*parts).cpu(), solve(*parts).evidence.cpu()])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(there, here, rtol=1e-6, atol=0)


def test_visits_and_correlations():
    shift = torch.tensor([[0.3]], dtype=F64)
    assert torch.equal(
        by_weight(WEIGHTS[None].to(DEVICE), shift.to(DEVICE), 90).cpu(), by_weight(WEIGHTS[None], shift, 90)
    )
    f, noise = (
        torch.randn(1, 80, 4, 2, generator=torch.Generator().manual_seed(2), dtype=F64),
        torch.ones(1, 2, dtype=F64),
    )
    found = []
    for device in (CPU, DEVICE):
        likelihood = NormalLikelihood(noise.to(device), NOISE_RULES["rmse"])
        seen = Outputs(f.to(device), Y[None].to(device), None, None, 80, WEIGHTS[None].to(device))
        terms = seen.weighted(likelihood.log_density(seen.f, seen.y, seen.y_err))
        found.append(fit_correlation(likelihood.scores(seen.f, seen.y, seen.y_err), terms, seen.counts).cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=1e-8)


def test_budgets_of_entropy():
    seeds, found = SeedSequence(0).spawn(2), []
    for device in (CPU, DEVICE):
        stack = NetworkStack(lambda: paper_network(2, 3, 16), 2, 3, seeds, device, F64)
        sampler = EntropyBudgetSampler(BernoulliDropout(stack, 1.0), 2, 10, 5, seeds)
        found.append(sampler.contributions(ZetaNormal(X[:9], torch.full_like(X[:1], 0.5)).to(device, F64)).cpu())
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("likelihood", ["normal", "student_t", "varying"])
def test_training_leans_to_the_rows_that_count(likelihood):
    x, y = np.linspace(-1, 1, 80)[:, None], np.arange(80) % 2 + 0.05 * Y[:, 0].numpy()
    weights = np.where(np.arange(80) % 2, 1.0, 0.1)
    small = {"hidden_units": 16, "n_hidden": 1, "epochs": 300, "random_state": 0, "device": str(DEVICE)}
    found = EiVRegressor(likelihood=likelihood, **small).fit(x, y, sample_weight=weights).predict(x[::8])
    assert (found > 0.75).all()


def test_classes_have_the_shares_of_their_weights():
    x, y = np.linspace(-1e-3, 1e-3, 90)[:, None], np.arange(90) % 3
    small = {"hidden_units": 8, "n_hidden": 1, "epochs": 500, "weight_penalty": 1e-3, "standardise": False}
    model = EiVClassifier(**small, random_state=0, device=str(DEVICE))
    found = model.fit(x, y, sample_weight=np.array([1.0, 3.0, 6.0])[y]).predict_proba(x[:1])
    np.testing.assert_allclose(found, [[0.1, 0.3, 0.6]], atol=0.06)
