"""A likelihood of our own, as someone from outside would write one: labels with heavy tails."""

import math

import numpy as np
import torch

from eiv.engine.pooling import pooled
from eiv.likelihoods import Likelihood


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

    def whitened(self, slopes, y_err=None):
        root = ((self.FREEDOM + 1) / (self.FREEDOM + 3)) ** 0.5 / self.of_rows(y_err)
        return slopes * root.to(slopes.dtype).unsqueeze(3)

    def draw(self, f, streams, y_err=None):
        freedom = int(self.FREEDOM)
        normal, squares = streams.normal(*f.shape[1:]), streams.normal(*f.shape[1:], freedom).square().mean(-1)
        return f + self.of_rows(y_err).unsqueeze(2) * (normal / squares.sqrt()).to(f.dtype)

    def std(self, pool=None):
        return np.sqrt(self.FREEDOM / (self.FREEDOM - 2) * pooled(self.scale.double().square(), pool).cpu().numpy())

    def labels(self, y_scale, shape, y_err=None, pool=None):
        raise NotImplementedError
