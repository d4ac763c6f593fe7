"""What someone from outside would write: a weight family, a rule for sigma_y, a prior, and one that is learned."""

from dataclasses import dataclass

import torch

from eiv.inputs import ZetaNormal
from eiv.likelihoods import NoiseRule
from eiv.posteriors import Theta, WeightPosterior


class CommonFactor(WeightPosterior):
    """All weights times 1 + 0.1 e, one e per network and draw."""

    shares_draws = True
    size = 0.1

    def draw(self, streams, n_draws):
        return {"e": streams.normal(n_draws)}

    def theta(self, draw):
        factor, parameters = 1 + self.size * draw["e"], {}
        for name, value in self.stack.parameters.items():
            moved = value.unsqueeze(1) * factor[(..., *(None,) * (value.ndim - 1))]
            parameters[name] = moved.flatten(0, 1)
        return Theta(self.no_masks(factor.shape[1]), parameters)

    def kl(self):
        return self.weight_penalty * self.squares()


class FactorOfSize(CommonFactor):
    """The same with another number than 0.1, for objects that carry it; e has a mean that is learned."""

    def __init__(self, size):
        self.size = size

    def start(self, stack, weight_penalty):
        started = super().start(stack, weight_penalty)
        like = next(iter(stack.parameters.values()))
        started.learned["mean"] = like.new_zeros(len(like), 1, requires_grad=True)
        return started

    def theta(self, draw):
        return super().theta({"e": draw["e"] + self.learned["mean"]})


class FixedShare(NoiseRule):
    """A tenth of the spread of y, whatever the networks do."""

    def renewed(self, y_noise, posterior, learned, judged, draws, streams):
        return 0.1 * learned.y.std(1)


@dataclass(frozen=True)
class Shrunk:
    """Zeta is drawn to zero by a tenth."""

    factor: float = 0.9

    def posterior(self, x, x_err):
        return ZetaNormal(self.factor * x, x_err * torch.ones_like(x))


@dataclass(frozen=True)
class ShrinkageLearner:
    """Learns how far zeta is drawn to zero."""

    def fit(self, x, x_err):
        return Shrunk(float(1 - (x_err**2).mean() / x.var()))
