"""Predictions of classes: probabilities, and the split of their entropy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine import memory
from eiv.engine.pooling import pooled
from eiv.engine.workers import run_tasks
from eiv.inputs.nodes import nearest_nodes, nodes_of_rule
from eiv.inputs.zeta import ZetaPosterior
from eiv.posteriors import WeightDraw
from eiv.prediction.result import is_unlike
from eiv.prediction.sampling import BlockSampler

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassPrediction", "ClassSampler", "Entropies", "entropies"]

Array = NDArray[np.float64]
_NODES_OF_TASK = 8  # zetas of a row that a core takes at once


class Entropies(NamedTuple):
    r"""The probabilities of classes, and the components of their entropy in nats.

    .. math:: H[\mathrm{probabilities}] = \mathrm{label} + \mathrm{aleatoric} + \mathrm{epistemic}

    Attributes:
        probabilities: `rows x C`, averaged over theta and zeta.
        label: `rows`, what is open where theta and zeta are known.
        aleatoric: `rows`, what the unknown true input adds.
        epistemic: `rows`, what the unknown weights add.

    Examples:
        >>> zero = torch.zeros(1)
        >>> Entropies(torch.tensor([[1.0, 0.0]]), zero, zero, zero).label
        tensor([0.])

    """

    probabilities: Tensor
    label: Tensor
    aleatoric: Tensor
    epistemic: Tensor


def entropies(p: Tensor, weights: Tensor, pool: Tensor | None = None) -> Entropies:
    r"""The split of the entropy of a prediction into what label, true input and weights leave open.

    .. math::
        \mathrm{label} = E_{\theta,\zeta} H[p_{\theta\zeta}], \qquad
        \mathrm{aleatoric} = E_\theta H[E_\zeta p_{\theta\zeta}] - E_{\theta,\zeta} H[p_{\theta\zeta}], \qquad
        \mathrm{epistemic} = H[E_{\theta,\zeta} p_{\theta\zeta}] - E_\theta H[E_\zeta p_{\theta\zeta}]

    The parts add up to the entropy :math:`H[p] = - \sum_c p_c \log p_c` of the averaged probabilities. None is
    negative, since the entropy is concave and all three come from the same draws. Network and theta together are the
    weights.

    Args:
        p: `S x K x Q x rows x C`, probabilities under K thetas of each network, each at the same Q zetas.
        weights: `Q x rows`, the weights of the zetas; they add up to one.
        pool: `S`, the share of each network, which add up to one; None where all are equal.

    Returns:
        The probabilities and the components.

    Examples:
        >>> sure = torch.eye(2).view(1, 1, 2, 1, 2)  # the class depends on zeta alone
        >>> found = entropies(sure, torch.full((2, 1), 0.5))
        >>> found.probabilities, found.aleatoric
        (tensor([[0.5000, 0.5000]]), tensor([0.6931]))

    """
    of_theta = torch.einsum("skqrc,qr->skrc", p, weights)
    mean = pooled(of_theta.mean(1), pool)
    label = pooled(torch.einsum("skqr,qr->skr", _entropy(p), weights).mean(1), pool)
    of_thetas, total = pooled(_entropy(of_theta).mean(1), pool), _entropy(mean)
    return Entropies(mean, label, (of_thetas - label).clamp_min(0), (total - of_thetas).clamp_min(0))


def _entropy(p: Tensor) -> Tensor:
    found: Tensor = torch.special.entr(p).sum(-1)
    return found


class ClassSampler(BlockSampler):
    r"""Draws of the probabilities of classes, each of all thetas at each of the same zetas.

    .. math:: p_{kq} = \mathrm{softmax}\, f_{\theta_k}(\zeta_q), \qquad k = 1 \dots K, \quad q = 1 \dots Q

    The entropy of a mean over few zetas is too small. Thetas are therefore not in blocks with few zetas each, as for
    moments. The zetas of a row are nodes of a rule, the same for every seed, and are matched to the posterior of zeta.
    Where the family knows the mean of f over theta in closed form, there are Q = G L nodes, and the deviation of f
    under a theta is that at the nearest of G nodes, as for `BlockSampler`. For other families Q is 2 G, since each
    theta takes a pass through the network at each of them.

    Args are those of `BlockSampler`.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.networks import NetworkStack, paper_network
        >>> from eiv.posteriors import BernoulliDropout
        >>> seeds = SeedSequence(0).spawn(1)
        >>> stack = NetworkStack(lambda: paper_network(1, 3), 1, 3, seeds, torch.device("cpu"))
        >>> sampler = ClassSampler(BernoulliDropout(stack, 10.0), n_inputs=1, n_theta=10, n_zeta=5, seeds=seeds)
        >>> sampler.entropies(ZetaNormal(torch.zeros(7, 1), torch.full((1, 1), 0.1))).probabilities.shape
        torch.Size([7, 3])

    """

    @property
    def rows_at_once(self) -> int:
        """How many rows fit in a fixed amount of memory."""
        stack = self.posterior.stack
        per_row = stack.n_networks * self._n_thetas * self._n_nodes * stack.n_outputs
        return max(1, memory.DRAWS[self.posterior.parameters[0].device.type] // per_row)

    @property
    def _n_thetas(self) -> int:
        return self.n_blocks * self.thetas_per_block

    @property
    def _n_nodes(self) -> int:
        return self.n_blocks * (self.n_zeta if self.posterior.in_closed_form else min(2, self.n_zeta))

    def entropies(self, inputs: ZetaPosterior) -> Entropies:
        """The probabilities and the components of their entropy for `inputs`, `rows x n_x`, in float64."""
        thetas, like = self._thetas(slice(None)), inputs.mean
        if self.n_zeta == 1:  # exact inputs
            p = self._probabilities(thetas, like.unsqueeze(0))
            return entropies(p, torch.ones(1, len(like), dtype=p.dtype, device=p.device), self.pool)
        rule = nodes_of_rule(self._n_nodes, self._n_base(inputs))
        zeta, weights = self._nodes(inputs, rule.to(like))
        tasks = [partial(self._probabilities, thetas, some) for some in zeta.split(_NODES_OF_TASK)]
        if self.posterior.in_closed_form:
            coarse = nodes_of_rule(self.n_blocks, rule.shape[1])
            near = nearest_nodes(rule, coarse)
            at, _ = self._nodes(inputs, coarse.to(like))
            tasks = [partial(self._near, thetas, *pair) for pair in zip(at, zeta[near], strict=True)]
            weights = weights[near.flatten()]
        p = torch.cat(run_tasks(tasks, like.device), dim=2)
        return entropies(p, weights.double(), self.pool)

    @torch.no_grad()
    def _probabilities(self, thetas: WeightDraw, zeta: Tensor) -> Tensor:
        """The probabilities under all thetas at `zeta`, `q x rows x n_x`: `S x K x q x rows x C`."""
        shared = zeta.flatten(0, 1).expand(self.posterior.stack.n_networks, self._n_thetas, -1, -1)
        f = self.posterior.evaluate(thetas, shared)
        by_zeta: Tensor = f.double().softmax(-1).unflatten(2, zeta.shape[:2])
        return by_zeta

    @torch.no_grad()
    def _near(self, thetas: WeightDraw, at: Tensor, zeta: Tensor) -> Tensor:
        """The same with the deviations from the mean over theta as they are at `at`, `rows x n_x`."""
        n_networks = self.posterior.stack.n_networks
        f = self.posterior.evaluate(thetas, at.expand(n_networks, self._n_thetas, -1, -1)).double()  # S x K x rows x C
        together = torch.cat([at.unsqueeze(0), zeta])
        mean = self.posterior.mean(together.flatten(0, 1).expand(n_networks, -1, -1)).double()
        mean = mean.unflatten(1, together.shape[:2]).unsqueeze(1)
        near: Tensor = (mean[:, :, 1:] + (f.unsqueeze(2) - mean[:, :, :1])).softmax(-1)
        return near


@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction:
    r"""What is known of the class of each row.

    .. math:: H[\mathrm{probabilities}] = \mathrm{label} + \mathrm{aleatoric} + \mathrm{epistemic}

    All parts of the entropy are in nats and not negative; see `eiv.prediction.classes.entropies`.

    Attributes:
        probabilities: `rows x C`, averaged over the weights and the true input.
        classes: `C`, the classes in the order of the columns.
        label: `rows`, the entropy that is left where the true input and the weights are known: classes that overlap.
        aleatoric: `rows`, what the error of x leaves open about the true input.
        epistemic: `rows`, what the data leave open about the weights.
        index: the labels of the rows, where X was a pandas table.
        contributions: `rows x n_x`, what an exact measurement of each input would take off the entropy, or None where
            it was not asked for; `budget` shows it.
        feature_names: the names of the features, where X was a pandas table.
        likeness: `rows`, as for `eiv.Prediction`.
        unlike_below: the likeness below which a row is `unlike` the training rows.

    Examples:
        >>> zero, half = np.zeros(1), np.full((1, 2), 0.5)
        >>> p = ClassPrediction(half, np.array(["no", "yes"]), label=np.log([2.0]), aleatoric=zero, epistemic=zero)
        >>> p
        ClassPrediction(rows=1, classes=2)
        >>> p.entropy.round(4), p.predicted
        (array([0.6931]), array(['no'], dtype='<U3'))
        >>> list(p.to_frame())
        ['P(no)', 'P(yes)', 'predicted', 'label', 'aleatoric', 'epistemic']

    """

    probabilities: Array
    classes: NDArray[Any]
    label: Array
    aleatoric: Array
    epistemic: Array
    index: Any = None
    likeness: Array | None = None
    unlike_below: float | None = None
    contributions: Array | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    def entropy(self) -> Array:
        """The entropy of the probabilities, the sum of the three components: `rows`."""
        return self.label + self.aleatoric + self.epistemic

    @property
    def predicted(self) -> NDArray[Any]:
        """The most probable class of each row."""
        return np.asarray(self.classes[self.probabilities.argmax(1)])

    @property
    def unlike(self) -> NDArray[np.bool_] | None:
        """Which rows are unlike the training rows, as for `eiv.Prediction`: `rows`; None where nothing is known."""
        return is_unlike(self.likeness, self.unlike_below)

    def __len__(self) -> int:
        return len(self.probabilities)

    def __repr__(self) -> str:
        found = "" if self.unlike is None or not self.unlike.any() else f", unlike={int(self.unlike.sum())}"
        return f"ClassPrediction(rows={len(self)}, classes={len(self.classes)}{found})"

    def budget(self) -> pd.DataFrame:
        r"""The budget of the entropy, in nats: label, each input, inputs together, and weights.

        .. math:: H = \mathrm{label} + \sum_i I_i + \mathrm{together} + \mathrm{epistemic}

        I is what an exact measurement of an input alone would take off the entropy, on average
        (`eiv.prediction.classbudget.EntropyBudgetSampler`). What inputs cause together is the rest of the aleatoric
        part; it can be negative where true inputs depend on each other given x, and by a little by chance.

        Returns:
            One row per prediction. The columns add up to `entropy`.

        Raises:
            ValueError: where the prediction was made without `budget=True`.

        Examples:
            >>> one = np.ones(1)
            >>> p = ClassPrediction(np.full((1, 2), 0.5), np.array([0, 1]), one, one, one,
            ...                     contributions=np.array([[0.5, 0.25]]))
            >>> p.budget()
               label   x0    x1  together  weights
            0    1.0  0.5  0.25      0.25      1.0

        """
        import pandas as pd  # noqa: PLC0415

        if self.contributions is None:
            raise ValueError("The budget was not asked for. Predict with predict_distribution(X, budget=True).")
        names = self.feature_names or tuple(f"x{i}" for i in range(self.contributions.shape[1]))
        together = self.aleatoric - self.contributions.sum(1)
        values = np.column_stack([self.label, self.contributions, together, self.epistemic])
        return pd.DataFrame(values, index=self.index, columns=["label", *names, "together", "weights"])

    def to_frame(self) -> pd.DataFrame:
        """A table with one row per prediction: probabilities, the most probable class, components of the entropy."""
        import pandas as pd  # noqa: PLC0415

        columns: dict[str, Any] = {
            f"P({name})": own for name, own in zip(self.classes.tolist(), self.probabilities.T, strict=True)
        }
        columns["predicted"] = self.predicted
        columns |= {name: getattr(self, name) for name in ("label", "aleatoric", "epistemic")}
        of_rows = {} if self.unlike is None else {"likeness": self.likeness, "unlike": self.unlike}
        return pd.DataFrame(columns | of_rows, index=self.index)
