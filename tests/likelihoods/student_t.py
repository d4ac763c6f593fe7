"""A likelihood of our own, as someone from outside would write one: labels with heavy tails."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy import special, stats

from eiv.engine.pooling import pooled
from eiv.likelihoods.base import Likelihood
from eiv.likelihoods.labels import Labels


class StudentT(Likelihood):
    """y - f is Student-t with `FREEDOM` degrees of freedom and a scale for each network and output.

    Known errors widen the scale as they do that of a normal distribution. Only what is abstract is defined.
    """

    FREEDOM = 5.0

    def __init__(self, scale):
        self.scale = scale

    @classmethod
    def start(cls, y_noise, rule):
        return cls(y_noise)

    @property
    def state(self):
        return {"scale": self.scale}

    def with_state(self, state):
        return type(self)(state["scale"])

    def of_rows(self, y_err):
        """`S x 1 x n_y` or `S x B x n_y`."""
        scale = self.scale.unsqueeze(1)
        return scale if y_err is None else torch.hypot(scale.expand_as(y_err), y_err)

    def log_density(self, f, y, y_err=None):
        scale = self.of_rows(y_err).unsqueeze(2)
        tail = torch.log1p(((y.unsqueeze(2) - f) / scale).square() / self.FREEDOM) * (self.FREEDOM + 1) / 2
        constant = math.lgamma((self.FREEDOM + 1) / 2) - math.lgamma(self.FREEDOM / 2)
        return (constant - 0.5 * math.log(self.FREEDOM * math.pi) - scale.log() - tail).sum(-1)

    def score(self, f, y, y_err=None):
        scale, residuals = self.of_rows(y_err).unsqueeze(2), y.unsqueeze(2) - f
        return (self.FREEDOM + 1) * residuals / (self.FREEDOM * scale.square() + residuals.square())

    def whitened(self, slopes, f, y_err=None):
        root = ((self.FREEDOM + 1) / (self.FREEDOM + 3)) ** 0.5 / self.of_rows(y_err)
        return slopes * root.to(slopes.dtype).unsqueeze(3)

    def draw(self, f, streams, y_err=None):
        freedom = int(self.FREEDOM)
        normal, squares = streams.normal(*f.shape[1:]), streams.normal(*f.shape[1:], freedom).square().mean(-1)
        return f + self.of_rows(y_err).unsqueeze(2) * (normal / squares.sqrt()).to(f.dtype)

    def std(self, pool=None):
        return np.sqrt(self.FREEDOM / (self.FREEDOM - 2) * pooled(self.scale.double().square(), pool).cpu().numpy())

    def labels(self, y_scale, shape, y_err=None, pool=None):
        scale = pooled(self.scale.double().square(), pool).sqrt().cpu().numpy() * y_scale
        return StudentLabels(np.hypot(scale, 0.0 if y_err is None else y_err) + np.zeros(shape), self.FREEDOM)


class StudentTOf(StudentT):
    """The same with degrees of freedom that an object carries."""

    def __init__(self, freedom, scale=None):
        self.FREEDOM, self.scale = freedom, scale

    def start(self, y_noise, rule):
        return type(self)(self.FREEDOM, y_noise)

    def with_state(self, state):
        return type(self)(self.FREEDOM, state["scale"])


@dataclass(frozen=True)
class StudentLabels(Labels):
    """Student-t noise of each row and output. Only what is abstract is defined."""

    scale: np.ndarray
    freedom: float

    @property
    def std(self):
        return self.scale * (self.freedom / (self.freedom - 2)) ** 0.5

    def __getitem__(self, chosen):
        return StudentLabels(self.scale[chosen], self.freedom)

    def quantile(self, draws, probabilities):
        found = [self._quantile(draws, probability) for probability in probabilities.reshape(-1)]
        return np.reshape(found, (*probabilities.shape, *draws.shape[1:]))

    def _quantile(self, draws, probability):
        low, high = draws.min(0) - 1e3 * self.scale, draws.max(0) + 1e3 * self.scale
        for _ in range(60):
            middle = (low + high) / 2
            below = special.stdtr(self.freedom, (middle - draws) / self.scale).mean(0) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def log_density(self, draws, y):
        terms = stats.t.logpdf((y - draws) / self.scale, self.freedom) - np.log(self.scale)
        return special.logsumexp(terms, axis=0) - math.log(len(draws))

    def sample(self, draws, random):
        return draws + self.scale * random.standard_t(self.freedom, draws.shape)
