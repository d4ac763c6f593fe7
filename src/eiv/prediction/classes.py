"""Predictions of classes: probabilities, and the split of their entropy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eiv.engine import memory
from eiv.engine.pooling import pooled
from eiv.engine.workers import run_tasks
from eiv.inputs.nodes import nodes_of_rule
from eiv.inputs.zeta import ZetaPosterior
from eiv.posteriors import WeightDraw
from eiv.prediction.result import is_unlike
from eiv.prediction.sampling import BlockSampler

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ClassPrediction", "ClassSampler", "Entropies", "entropies"]

Array = NDArray[np.float64]
_NODES_OF_BLOCK = 3  # zetas at which each theta of a block is evaluated
_LENGTH = 4.0  # of the Gaussian process that interpolates between them, in standard deviations of the true input
_RIDGE = 1e-6  # where points coincide, as those of exact inputs do


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
    return _split(of_theta, torch.einsum("skqr,qr->skr", _entropy(p), weights), pool)


def _split(of_theta: Tensor, labels: Tensor, pool: Tensor | None) -> Entropies:
    """The same from the means over zeta under each theta: of p, `S x K x rows x C`, and of H[p], `S x K x rows`."""
    mean, label = pooled(of_theta.mean(1), pool), pooled(labels.mean(1), pool)
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

    A pass through the network for each theta at each of Q = 3 G zetas would take long. The mean network is evaluated at
    all of them, and the thetas of a block at three of their own. In between, the deviation of a theta from the mean
    network is interpolated, since it varies far less with zeta than f itself:

    .. math:: f_{\theta_k}(\zeta_q) \approx f_0(\zeta_q)
              + \sum_{l=1}^3 w_{gl}(\zeta_q) \big(f_{\theta_k}(\zeta_{gl}) - f_0(\zeta_{gl})\big)

    f_0 is the mean of f over theta where the family knows it in closed form, else f at the parameters of the network,
    nothing dropped. The weights w are those of `interpolation`.

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
        per_row = stack.n_networks * self.thetas_per_block * self.n_blocks * self._n_own * stack.n_outputs
        return max(1, memory.CLASSES[self.posterior.parameters[0].device.type] // per_row)

    @property
    def _n_thetas(self) -> int:
        return self.n_blocks * self.thetas_per_block

    @property
    def _n_own(self) -> int:
        return min(_NODES_OF_BLOCK, self.n_zeta)

    def entropies(self, inputs: ZetaPosterior) -> Entropies:
        """The probabilities and the components of their entropy for `inputs`, `rows x n_x`, in float64."""
        like = inputs.mean
        if self.n_zeta == 1:  # exact inputs
            p = self._probabilities(self._thetas(slice(None)), like.unsqueeze(0))
            return entropies(p, torch.ones(1, len(like), dtype=p.dtype, device=p.device), self.pool)
        rule = nodes_of_rule(self.n_blocks * self._n_own, self._n_base(inputs))
        if rule.shape[1] == 1:  # in order: a block takes nodes that lie far apart
            rule = rule.view(self._n_own, self.n_blocks).T.reshape(-1, 1)
        nodes = _Nodes.of(inputs, *self._nodes(inputs, rule.to(like)))
        centre = self._mean_network(nodes.zeta)
        tasks = [partial(self._of_block, block, nodes, centre) for block in range(self.n_blocks)]
        of_theta, labels = (torch.cat(each, dim=1) for each in zip(*run_tasks(tasks, like.device), strict=True))
        return _split(of_theta.mT, labels, self.pool)

    @torch.no_grad()
    def _mean_network(self, zeta: Tensor) -> Tensor:
        """f_0 at `zeta`, `Q x rows x n_x`: `S x Q x C x rows`, in float64."""
        posterior = self.posterior
        flat = zeta.flatten(0, 1).expand(posterior.stack.n_networks, -1, -1)
        if posterior.in_closed_form:
            f = posterior.mean(flat)
        else:
            f = posterior.stack(posterior.no_masks(), flat.unsqueeze(1)).squeeze(1)
        by_zeta: Tensor = f.double().unflatten(1, zeta.shape[:2]).mT.contiguous()
        return by_zeta

    @torch.no_grad()
    def _of_block(self, block: int, nodes: _Nodes, centre: Tensor) -> tuple[Tensor, Tensor]:
        """The means over zeta of p, `S x A x C x rows`, and of H[p], `S x A x rows`, under the thetas of a block."""
        own = slice(block * self._n_own, (block + 1) * self._n_own)
        zeta = nodes.zeta[own]
        shared = zeta.flatten(0, 1).expand(self.posterior.stack.n_networks, self.thetas_per_block, -1, -1)
        f = self.posterior.evaluate(self._thetas(slice(block, block + 1)), shared).double()
        deviations = f.unflatten(2, zeta.shape[:2]).mT - centre[:, own].unsqueeze(1)  # S x A x own x C x rows
        moves = interpolation(nodes.at, nodes.at[:, own]).permute(2, 1, 0).unsqueeze(2)  # own x Q x 1 x rows
        f = centre.unsqueeze(1).repeat(1, self.thetas_per_block, 1, 1, 1)  # S x A x Q x C x rows
        for move, deviation in zip(moves.contiguous(), deviations.unsqueeze(2).unbind(3), strict=True):
            f.addcmul_(move, deviation)
        f -= f.amax(-2, keepdim=True)
        p = f.exp()
        total = p.sum(-2, keepdim=True)
        p /= total
        labels = total.squeeze(-2).log() - f.mul_(p).sum(-2)
        return (p * nodes.weights.unsqueeze(1)).sum(2), (labels * nodes.weights).sum(2)

    @torch.no_grad()
    def _probabilities(self, thetas: WeightDraw, zeta: Tensor) -> Tensor:
        """The probabilities under all thetas at `zeta`, `q x rows x n_x`: `S x K x q x rows x C`."""
        shared = zeta.flatten(0, 1).expand(self.posterior.stack.n_networks, self._n_thetas, -1, -1)
        f = self.posterior.evaluate(thetas, shared)
        by_zeta: Tensor = f.double().softmax(-1).unflatten(2, zeta.shape[:2])
        return by_zeta


class _Nodes(NamedTuple):
    """The zetas of a rule.

    Attributes:
        zeta: `Q x rows x n_x`; those of a block follow each other.
        weights: `Q x rows`, in float64.
        at: `rows x Q x n_x`, their distances from the mean of zeta in standard deviations, 0 for exact inputs.

    """

    zeta: Tensor
    weights: Tensor
    at: Tensor

    @classmethod
    def of(cls, inputs: ZetaPosterior, zeta: Tensor, weights: Tensor) -> _Nodes:
        weights, away = weights.double(), (zeta - inputs.mean).double()
        std = (weights.unsqueeze(2) * away.square()).sum(0).sqrt()
        return cls(zeta, weights, (away / torch.where(std > 0, std, 1.0)).transpose(0, 1))


def interpolation(at: Tensor, known: Tensor) -> Tensor:
    r"""Weights that interpolate a smooth function from a few points, as a Gaussian process of unknown mean does.

    .. math:: w(z) = \begin{pmatrix} k(z_i, z_j) & 1 \\ 1 & 0 \end{pmatrix}^{-1}
              \begin{pmatrix} k(z_i, z) \\ 1 \end{pmatrix}, \qquad
              k(z, z') = \exp\Big(- \frac{|z - z'|^2}{2 \cdot 4^2\, n_x}\Big)

    They add up to one, so that a constant stays. A length of four standard deviations of each input makes what lies
    between the points nearly straight.

    Args:
        at: z, `rows x Q x n_x`, in standard deviations of each input.
        known: the points, `rows x own x n_x`.

    Returns:
        The weights of the points, `rows x Q x own`.

    Examples:
        >>> points = torch.tensor([[[-1.0], [1.0]]], dtype=torch.float64)
        >>> interpolation(torch.tensor([[[-1.0], [0.0]]], dtype=torch.float64), points).round(decimals=3)
        tensor([[[1.0000, 0.0000],
                 [0.5000, 0.5000]]], dtype=torch.float64)

    """
    n_own, width = known.shape[1], 2 * _LENGTH**2 * at.shape[2]
    among, to = (torch.exp(-torch.cdist(known, other).square() / width) for other in (known, at))
    among = among + _RIDGE * torch.eye(n_own, dtype=at.dtype, device=at.device)
    bordered = nn.functional.pad(among, (0, 1, 0, 1), value=1.0)
    bordered[:, -1, -1] = 0.0
    found: Tensor = torch.linalg.solve(bordered, nn.functional.pad(to, (0, 0, 0, 1), value=1.0))
    return found[:, :n_own].mT


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
