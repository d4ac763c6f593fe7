"""A step of training that moves the true input of each row with the weights, in the place of an integral over it."""

from __future__ import annotations

import torch
from torch import Tensor

from eiv.engine.batch import Batch
from eiv.engine.optim import FlatAdam
from eiv.likelihoods import Likelihood
from eiv.posteriors import WeightPosterior
from eiv.training.objective import loss
from eiv.training.steps import Counts, Step

_MOVES = 10  # of zeta in a step; one does where f is straight


class MovedZetaStep(Step):
    r"""One optimisation step with the zeta of each row where it explains x and y best.

    .. math:: \hat e = \arg\max_e\ \log p(y | f_\theta(\zeta(e))) - \tfrac12 |e|^2, \qquad
              e \leftarrow e + (I + J^T R R^T J)^{-1} \big(J^T \nabla_f \log p - e\big), \qquad
              J = \frac{\partial f}{\partial e}

    Zeta is a linear function of standard normal numbers e, so that the square of e is that of zeta - E(zeta | x) in
    units of its error. The steps of zeta are those of Gauss and Newton (R as in `Likelihood.whitened`). A row whose
    step makes it worse stays where it is, and tries half of the step. The value at the maximum is what the loss takes
    ("profile": orthogonal distance regression), or with it the width of the peak ("laplace"):

    .. math:: \log p(y | x, \theta) \approx \log p(y | f_\theta(\zeta(\hat e))) - \tfrac12 |\hat e|^2
              - \tfrac12 \log\det (I + J^T R R^T J)

    which is exact for a plane with normal noise. The gradient holds e. That is right at the maximum, and for the
    determinant where slopes do not depend on zeta, as between the kinks of leaky ReLU.

    Args:
        posterior: q_phi of S networks.
        likelihood: p(y | f).
        counts: how many rows an epoch visits, and how many they count for.
        adam: moves phi.
        with_determinant: whether the determinant counts.

    """

    def __init__(
        self, posterior: WeightPosterior, likelihood: Likelihood, counts: Counts, adam: FlatAdam, with_determinant: bool
    ) -> None:
        super().__init__(posterior, likelihood, counts, adam)
        self.with_determinant = with_determinant

    def __call__(self, batch: Batch, total: Tensor) -> None:
        """Move the weights for a minibatch whose zetas are those at e = 0 and at the unit vectors."""
        rows = _Rows(batch, self.posterior, self.likelihood)
        e = rows.best()
        self.adam.gradient.zero_()
        terms = rows.objective(e)
        if self.with_determinant:
            terms = terms - 0.5 * torch.linalg.slogdet(rows.curvature(e, keep=True))[1]
        found = loss(-terms.mean(1), self.posterior.kl(), self.n_rows)
        found.sum().backward()
        total.add_(found.detach(), alpha=batch.y.shape[1] / self.n_visits)
        self.adam.step()


class _Rows:
    """The rows of a minibatch: zeta as a linear function of e, `S x B x n`."""

    def __init__(self, batch: Batch, posterior: WeightPosterior, likelihood: Likelihood) -> None:
        self.start, self.axes = batch.zeta[:, :, 0], batch.zeta[:, :, 1:] - batch.zeta[:, :, :1]
        self.y, self.y_err, self.draw = batch.y, batch.y_err, batch.draw
        self.posterior, self.likelihood = posterior, likelihood

    def best(self) -> Tensor:
        """The e of each row after the moves, without a graph."""
        e = self.start.new_zeros(*self.axes.shape[:3])
        value, share = self.objective(e).detach(), e.new_ones(*e.shape[:2], 1)
        for _ in range(_MOVES):
            moved = e + share * self._move(e)
            found = self.objective(moved).detach()
            better = found >= value
            e, value = torch.where(better.unsqueeze(-1), moved, e), torch.where(better, found, value)
            share = torch.where(better.unsqueeze(-1), 1.0, 0.5 * share)
        return e

    def objective(self, e: Tensor) -> Tensor:
        """The logarithm of p(y | f) and of the density of e, but for a constant: `S x B`."""
        terms = self.likelihood.log_density(self._f(e).unsqueeze(2), self.y, self.y_err).squeeze(2)
        return terms - 0.5 * e.square().sum(-1)

    def curvature(self, e: Tensor, keep: bool = False) -> Tensor:
        """The matrix I + J^T R R^T J, `S x B x n x n`; with `keep` it has gradients to phi."""
        f, slopes = self._slopes(e, keep)
        return self._with_one(self.likelihood.whitened(slopes, f, self.y_err))

    def _move(self, e: Tensor) -> Tensor:
        f, slopes = (part.detach() for part in self._slopes(e))
        score = self.likelihood.score(f.unsqueeze(2), self.y, self.y_err)  # S x B x 1 x n_y
        gradient = (score @ slopes).squeeze(2) - e
        curvature = self._with_one(self.likelihood.whitened(slopes, f, self.y_err))
        found: Tensor = torch.linalg.solve(curvature, gradient.unsqueeze(-1)).squeeze(-1)
        return found.detach()

    def _slopes(self, e: Tensor, keep: bool = False) -> tuple[Tensor, Tensor]:
        """The outputs, `S x B x n_y`, and their slopes J, `S x B x n_y x n`."""
        e = e.detach().requires_grad_(True)
        f = self._f(e)
        slopes = [
            torch.autograd.grad(output.sum(), e, retain_graph=True, create_graph=keep)[0] for output in f.unbind(-1)
        ]
        return f, torch.stack(slopes, dim=2)

    def _f(self, e: Tensor) -> Tensor:
        zeta = self.start + (e.unsqueeze(-2) @ self.axes).squeeze(-2)
        return self.posterior.evaluate(self.draw, zeta.unsqueeze(2)).squeeze(2)

    @staticmethod
    def _with_one(root: Tensor) -> Tensor:
        return root.mT @ root + torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
