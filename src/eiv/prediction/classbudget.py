"""How much of the entropy of a predicted class the error of each input causes."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from eiv.engine import memory
from eiv.engine.pooling import pooled
from eiv.engine.workers import run_tasks
from eiv.inputs.nodes import nodes_of_rule
from eiv.inputs.zeta import ZetaPosterior
from eiv.prediction.classes import ClassSampler

__all__ = ["EntropyBudgetSampler"]

_VALUES, _OTHERS = 16, 64  # of an input itself, and of the others for each of them


class EntropyBudgetSampler(ClassSampler):
    r"""What an exact measurement of each input would take off the entropy of a prediction, on average.

    .. math:: I_i = E_\theta \Big( H\big[E_\zeta\, p_\theta(\zeta)\big]
              - E_{\zeta_i} H\big[E_{\eta_{-i}}\, p_\theta(\zeta_i, \eta_{-i})\big] \Big)

    This is the mutual information of the class and the true value of input i, in nats. It is not negative, and zero for
    an input without error. Where true values are independent given x, all of them together are the aleatoric component
    at most; the rest is what inputs cause together. zeta_i takes 16 values, each crossed with the same 64 of the other
    inputs. Where true values depend on each other given x, the other inputs are drawn as if they did not, as for the
    budget of a variance (`eiv.prediction.budget.BudgetSampler`).

    Args are those of `eiv.prediction.classes.ClassSampler`.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(2, 3), 2, 3, seeds, torch.device("cpu"))
        >>> sampler = EntropyBudgetSampler(BernoulliDropout(stack, 10.0), n_inputs=2, n_theta=10, n_zeta=5, seeds=seeds)
        >>> found = sampler.contributions(ZetaNormal(torch.zeros(7, 2), torch.tensor([[0.1, 0.0]])))
        >>> found.shape, bool((found[:, 1] == 0).all())
        (torch.Size([7, 2]), True)

    """

    def contributions(self, inputs: ZetaPosterior) -> Tensor:
        """I for `inputs`, `rows x n_x`, in float64: `rows x n_x`."""
        found = torch.zeros_like(inputs.mean, dtype=torch.float64)
        noisy, n_base = list(inputs.noisy), self._n_base(inputs)
        if not noisy:
            return found
        own, others = (_drawn(inputs, nodes_of_rule(n, n_base).to(inputs.mean)) for n in (_VALUES, _OTHERS))
        own, others = own.repeat_interleave(_OTHERS, 0), others.repeat(_VALUES, 1, 1)  # (values others) x rows x n_x
        tasks = [partial(self._information, own[..., i], others, i) for i in noisy]
        found[:, noisy] = torch.stack(run_tasks(tasks, inputs.mean.device), dim=1)
        return found

    @property
    def rows_at_once(self) -> int:
        """How many rows fit in a fixed amount of memory."""
        stack = self.posterior.stack
        per_row = stack.n_networks * self._n_thetas * _VALUES * _OTHERS * stack.n_outputs
        return max(1, memory.DRAWS[self.posterior.parameters[0].device.type] // per_row)

    def _information(self, own: Tensor, others: Tensor, feature: int) -> Tensor:
        """I of one feature, `rows`, from its values, `n x rows`, and those of all inputs, `n x rows x n_x`."""
        mixed = others.clone()
        mixed[..., feature] = own
        p = self._probabilities(self._thetas(slice(None)), mixed).unflatten(2, (_VALUES, _OTHERS))
        given = p.mean(3)  # S x K x values x rows x C
        known, whole = torch.special.entr(given).sum(-1).mean(2), torch.special.entr(given.mean(2)).sum(-1)
        return pooled((whole - known).mean(1), self.pool).clamp_min(0)


def _drawn(inputs: ZetaPosterior, noise: Tensor) -> Tensor:
    """True inputs for numbers `n x n_base` that serve all rows: `n x rows x n_x`."""
    drawn: Tensor = inputs.draw(noise.expand(len(inputs.mean), -1, -1)).movedim(1, 0)
    return drawn
