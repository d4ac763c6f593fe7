"""What someone from outside would write: a weight family, a rule for sigma_y, a prior and a likelihood."""

from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from eiv.engine.pooling import pooled
from eiv.inputs import ZetaNormal
from eiv.likelihoods import Labels, NoiseRule
from eiv.posteriors import Theta, WeightPosterior
from likelihoods.student_t import StudentT


class CommonFactor(WeightPosterior):
    """All weights times 1 + 0.1 e, one e per network and draw."""

    shares_draws = True

    def draw(self, streams, n_draws):
        return {"e": streams.normal(n_draws)}

    def theta(self, draw):
        factor, parameters = 1 + 0.1 * draw["e"], {}
        for name, value in self.stack.parameters.items():
            moved = value.unsqueeze(1) * factor[(..., *(None,) * (value.ndim - 1))]
            parameters[name] = moved.flatten(0, 1)
        return Theta(self._no_masks(factor.shape[1]), parameters)

    def kl(self):
        return self.weight_penalty * self.squares()


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


class HeavyTails(StudentT):
    """Labels with heavy tails, whose scale is what the fit begins with."""

    def labels(self, y_scale, shape, y_err=None, pool=None):
        scale = pooled(self.scale.double().square(), pool).sqrt().cpu().numpy() * y_scale
        return HeavyLabels(np.hypot(scale, 0.0 if y_err is None else y_err) + np.zeros(shape), self.FREEDOM)


@dataclass(frozen=True)
class HeavyLabels(Labels):
    scale: np.ndarray
    freedom: float

    @property
    def std(self):
        return self.scale * (self.freedom / (self.freedom - 2)) ** 0.5

    def __getitem__(self, chosen):
        return HeavyLabels(self.scale[chosen], self.freedom)

    def quantile(self, draws, probabilities):
        samples = np.concatenate([self.sample(draws, np.random.default_rng(i)) for i in range(20)])
        return np.quantile(samples, probabilities, axis=0)

    def sample(self, draws, random):
        return draws + self.scale * stats.t.rvs(self.freedom, size=draws.shape, random_state=random)
