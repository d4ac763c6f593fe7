"""Laplace's approximation for the last layer, under the likelihood with errors in x."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call

from eiv.inputs.draws import ZetaDraws
from eiv.inputs.zeta import ZetaPosterior
from eiv.networks import NetworkStack
from eiv.objective import log_likelihood
from eiv.posteriors.base import StackPosterior, WeightDraw
from eiv.streams import Streams

__all__ = ["LastLayerLaplace"]

_ZETAS = 50  # a row, behind the second derivatives
_MOST_ROWS = 10_000  # that they are summed over
_BLOCK_VALUES = 2**21  # of the widest layer, in one pass
_LEAST_PRECISION = 1e-8  # as a share of the largest, where there is no prior


class LastLayerLaplace(StackPosterior):
    r"""A normal distribution of the last layer's weights about the MAP estimate; all other weights are points.

    .. math::
        w \sim \mathcal{N}(\hat w, C), \qquad
        C^{-1} = \frac{1}{\lambda_\theta^2} I - \sum_i \nabla_w^2 \log \int p(y_i | \theta, \zeta)\, \pi(\zeta | x_i)\,
        d\zeta

    The second derivatives are those of the EiV likelihood, eq. (eiv_marginal_likelihood), by Louis' identity: with
    weights :math:`v_l \propto p(y | \theta, \zeta_l)` of 50 zetas a row, features h and slopes
    :math:`g_l = h_l (f_l - y) / \sigma_y^2`,

    .. math:: - \nabla_w^2 \log p = \sum_l v_l \frac{h_l h_l^T}{\sigma_y^2} - \Big( \sum_l v_l g_l g_l^T
              - \sum_l v_l g_l \sum_l v_l g_l^T \Big).

    What an unknown input takes from the information in a row is the bracket. Where it leaves a direction with a
    negative sum, that direction keeps the prior's precision. The divergence is

    .. math:: D_{KL} = \frac{|\phi|^2 + \mathrm{tr}\, C}{2 \lambda_\theta^2}
              - \frac12 \log\det \frac{C}{\lambda_\theta^2} - \frac{n_w}{2} + \mathrm{const},

    up to the constant of the weights that are points. Training is the MAP estimate, without randomness in the weights
    (dropout layers drop nothing), and costs no more than Bernoulli dropout. At its end come a pass over the training
    rows (10,000 of them at most) and a matrix of :math:`n_y (h + 1)` rows, which is taken apart. A prediction needs one
    pass through the network for all thetas. All rows share a theta, and all zetas.

    The epistemic part shrinks as 1 / N. Exact for a network without hidden layer and exact inputs. Otherwise it leaves
    out what the data leave open about the hidden layers, and is too small far from the data, where ReLU features
    grow without being told apart.

    Args:
        stack: the S networks; what the last `nn.Linear` returns must be the output.
        weight_penalty: 1 / (2 lambda_theta^2).

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, cpu)
        >>> q = LastLayerLaplace(stack, weight_penalty=10.0)
        >>> x = torch.linspace(-1, 1, 40).reshape(1, 40, 1).expand(2, -1, -1)
        >>> q.finish(ZetaPosterior(x, 0 * x), 2 * x, torch.full((2, 1), 0.1), None, Streams(seeds, cpu))
        >>> q.state["root"].shape  # networks, weights of the last layer twice
        torch.Size([2, 9, 9])

    """

    shares_draws = True

    def __init__(self, stack: NetworkStack, weight_penalty: float) -> None:
        super().__init__(stack, weight_penalty)
        linear = [name for name, layer in stack.template.named_modules() if type(layer) is nn.Linear]
        self.head = linear[-1] if linear else None
        self._check_head()

    def begin(self, streams: Streams) -> None:
        """Forget an earlier end."""
        self.kept.clear()

    @torch.no_grad()
    def finish(
        self, inputs: ZetaPosterior, y: Tensor, y_noise: Tensor, draws: ZetaDraws | None, streams: Streams
    ) -> None:
        """Find C, and keep a root of it: `root`, `S x n_w x n_w`; w stands as `n_y x (h + 1)`, the bias last."""
        stride = -(-y.shape[1] // _MOST_ROWS)
        if draws is not None and draws.kind != "gauss_hermite":
            draws = ZetaDraws.of("stratified", max(_ZETAS, draws.n_zeta), inputs)
        n_zeta = 1 if draws is None else draws.n_zeta
        rows = torch.arange(0, y.shape[1], stride, device=y.device)
        information = torch.zeros((), dtype=torch.float64, device=y.device)
        for some in rows.split(max(1, _BLOCK_VALUES // (self.stack.width * n_zeta))):
            taken = inputs.take(some.expand(len(y), -1))
            zeta = taken.mean.unsqueeze(2) if draws is None else taken.draw(draws.base(streams, len(some)))
            noise = y_noise if y_noise.ndim == 2 else y_noise[:, some]
            rule = None if draws is None else draws.quadrature(y.dtype, y.device)
            weights = None if rule is None else rule.log_weights
            information = information + self._information(zeta, y[:, some], noise, weights)
        values, vectors = torch.linalg.eigh(information * (y.shape[1] / len(rows)))
        precisions = values.clamp_min(0) + 2 * self.weight_penalty
        precisions = torch.maximum(precisions, _LEAST_PRECISION * precisions.amax(1, keepdim=True))
        root = vectors * precisions.rsqrt().unsqueeze(1) @ vectors.mT  # the symmetric one, which is unique
        self.kept["root"] = root.to(y.dtype)

    def kept_shapes(self, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """A root for each network."""
        n_networks, _, n_outputs, n_features = self._head().shape
        return {"root": (n_networks, n_outputs * n_features, n_outputs * n_features)}

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw a normal number for each weight of the last layer: `{head: S x n_draws x n_w}`; none in training."""
        return {"head": streams.normal(n_draws, self.kept["root"].shape[1])} if self.kept else {}

    def evaluate(self, draw: WeightDraw, zeta: Tensor) -> Tensor:
        """Compute f_theta(zeta): `S x D x R x n_x` to `S x D x R x n_y`."""
        if not draw:
            return super().evaluate(draw, zeta)
        own = zeta[:, :1] if zeta.stride(1) == 0 else zeta  # inputs that all draws share are taken once
        features = self._features(own)  # S x D x R x (h + 1)
        weights = self._head() + (draw["head"] @ self.kept["root"].mT).unflatten(2, (-1, features.shape[3]))
        f: Tensor = torch.matmul(features, weights.mT)
        return f

    def kl(self) -> Tensor:
        """The penalty of the MAP estimate; once training has ended, with the last layer's normal distribution, `S`."""
        penalty = super().kl()
        if not self.kept or self.weight_penalty == 0:
            return penalty
        scaled = self.kept["root"].double() * (2 * self.weight_penalty) ** 0.5
        log_det = 2 * torch.linalg.slogdet(scaled).logabsdet
        rest: Tensor = 0.5 * (scaled.square().sum((1, 2)) - log_det - scaled.shape[1])
        return penalty + rest.to(penalty.dtype)

    def _information(self, zeta: Tensor, y: Tensor, y_noise: Tensor, log_weights: Tensor | None) -> Tensor:
        """Minus the second derivatives of the log-likelihood of some rows, in float64: `S x n_w x n_w`."""
        features = self._features(zeta)  # S x B x L x (h + 1)
        f = torch.matmul(features, self._head().mT)
        terms = log_likelihood(f, y, y_noise)
        weights = (terms if log_weights is None else terms + log_weights).softmax(-1).double()  # v, S x B x L
        features, variance = features.double(), y_noise.double().square()
        variance = variance[:, None, None] if variance.ndim == 2 else variance.unsqueeze(2)  # S x . x 1 x n_y
        per_output = weights.unsqueeze(-1) / variance  # S x B x L x n_y
        blocks = torch.einsum("sblj,sblp,sblq->sjpq", per_output, features, features)
        information = torch.stack([torch.block_diag(*own) for own in blocks])
        if zeta.shape[2] == 1:  # one zeta: nothing is unknown
            return information
        slopes = ((f.double() - y.double().unsqueeze(2)) / variance).unsqueeze(-1) * features.unsqueeze(-2)
        slopes = slopes.flatten(3)  # g, S x B x L x n_w
        mean = torch.einsum("sbl,sblp->sbp", weights, slopes)
        rest = (weights.sqrt().unsqueeze(-1) * (slopes - mean.unsqueeze(2))).flatten(1, 2)
        return information - rest.mT @ rest

    def _head_parameter(self, name: str) -> Tensor | None:
        value = self.stack.parameters.get(f"{self.head}.{name}".lstrip("."))
        return None if value is None else value.detach()

    def _head(self) -> Tensor:
        """The weights of the last layer, its bias last: `S x 1 x n_y x (h + 1)`."""
        weight, bias = self._head_parameter("weight"), self._head_parameter("bias")
        assert weight is not None
        return (weight if bias is None else torch.cat([weight, bias.unsqueeze(2)], dim=2)).unsqueeze(1)

    def _features(self, zeta: Tensor) -> Tensor:
        """What comes into the last layer, and a one for its bias: `S x D x R x (h + 1)`."""
        return torch.cat([torch.stack(self._features_of(part)) for part in self.stack._parts(zeta)], dim=2)

    def _features_of(self, zeta: Tensor) -> list[Tensor]:
        template = copy.deepcopy(self.stack.template)  # functional_call lends it its state, so each thread needs one
        caught: list[Tensor] = []
        head = template.get_submodule(self.head or "")
        head.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
        state = self.stack.parameters | self.stack.constants | self._no_masks()
        for s, values in enumerate(zeta):
            functional_call(template, {name: value[s] for name, value in state.items()}, (values.flatten(0, 1),))
        if self._head_parameter("bias") is not None:
            caught = [nn.functional.pad(values, (0, 1), value=1.0) for values in caught]
        return [values.unflatten(0, zeta.shape[1:3]) for values in caught]

    @torch.no_grad()
    def _check_head(self) -> None:
        """See to it that the output is linear in the weights of the last layer."""
        problem = "module has no nn.Linear with weights to train"
        if self.head is not None and self._head_parameter("weight") is not None:
            like, n_inputs = next(iter(self.stack.parameters.values())), self.stack.n_inputs
            zeta = torch.linspace(-1, 1, 2 * n_inputs, dtype=like.dtype, device=like.device)
            zeta = zeta.reshape(1, 1, 2, n_inputs).expand(len(like), -1, -1, -1)
            features, f = self._features(zeta), super().evaluate({}, zeta)
            linear = features.shape[:3] == f.shape[:3] and features.shape[3] == self._head().shape[3]
            if linear and torch.allclose(torch.matmul(features, self._head().mT), f, rtol=1e-3, atol=1e-5):
                return
            problem = "the output of module is not that of its last nn.Linear"
        raise ValueError(f"posterior='last_layer_laplace' is about the weights of a linear last layer, but {problem}.")
