"""Laplace's approximation for the last layer, under the likelihood with errors in x."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call

from eiv.engine import memory
from eiv.engine.cosines import CosineStack
from eiv.engine.pooling import beside
from eiv.engine.quadrature import Quadrature
from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods import Likelihood
from eiv.networks import NetworkStack
from eiv.posteriors.base import PointPosterior, ThetaVariance, WeightDraw
from eiv.posteriors.directions import Directions
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["LastLayerLaplace"]

_ZETAS = 256  # zetas per row in each of the two sets that its information is estimated from, without quadrature
_MOST_ROWS, _MOST_DRAWN_ROWS = 10_000, 2_000  # the most rows that the information is taken from, with and without it
_LABELS, _LEAST_LABELS = 2_000, 4  # the fewest labels that are drawn, over all rows and per row
_ONE_AT_A_TIME = threading.Lock()  # threads that predict with the same posterior wait for its directions
_LEAST_INVERSE_VARIANCE = 1e-8  # the smallest as a share of the largest, for a fit without prior


class Features(NamedTuple):
    r"""The slopes of f with respect to the weights that vary.

    .. math:: \frac{\partial f_j}{\partial w_{j'q}} = \delta_{jj'} h_q, \qquad \frac{\partial f_j}{\partial \delta_m}

    Attributes:
        last: the inputs h of the last layer, and a one for its bias: `S x D x R x (h + 1)`.
        hidden: slopes with respect to m weights of the hidden layers: `S x D x R x n_y x m`, where m may be 0.

    Examples:
        >>> Features(last=torch.ones(2, 1, 40, 9), hidden=torch.ones(2, 1, 40, 1, 0)).last.shape
        torch.Size([2, 1, 40, 9])

    """

    last: Tensor
    hidden: Tensor


class LastLayerLaplace(PointPosterior):
    r"""A normal distribution of the last layer's weights about the MAP estimate; all other weights are points.

    .. math::
        w \sim \mathcal{N}(\hat w, C), \qquad
        C^{-1} = \frac{1}{\lambda_\theta^2} I + \sum_i \mathrm{E}_{\tilde y}\big[ s_i s_i^T \big], \qquad
        s_i = \nabla_w \log \int p(\tilde y | \theta, \zeta)\, \pi(\zeta | x_i)\, d\zeta

    The sum is the Fisher information of the EiV likelihood, eq. (eiv_marginal_likelihood). It is estimated from labels
    :math:`\tilde y = f(\zeta) + \varepsilon_y` that are drawn from the network, each with a zeta of its own that the
    likelihood integrates over. Several labels per row are drawn, at least 2,000 over all rows. Unlike second
    derivatives at the measured labels, the information cannot be negative where zetas are uncertain. With exact inputs
    it is :math:`\sum_i h_i h_i^T / \sigma_y^2`, where h are the inputs of the last layer. The divergence is

    .. math:: D_{KL} = \frac{|\phi|^2 + \mathrm{tr}\, C}{2 \lambda_\theta^2}
              - \frac12 \log\det \frac{C}{\lambda_\theta^2} - \frac{n_w}{2} + \mathrm{const},

    where phi are the weights that training found; the constant is that of the weights that stay points. Training finds
    the MAP estimate, without randomness in the weights (dropout layers drop nothing); its steps cost no more than those
    of Bernoulli dropout. It ends with a pass over the training rows, and the eigenvalues of a matrix of
    :math:`n_y (h + 1)` rows. The pass takes at most 10,000 rows, or 2,000 where zetas are drawn, in two sets of 256. A
    prediction needs one pass through the network for all thetas, and computes mean and variance over theta in closed
    form. All rows and all zetas share a theta.

    The epistemic variance shrinks as 1 / N. It is exact for a network without hidden layer and exact inputs. Otherwise
    it omits the uncertainty of the hidden layers. It is too small far from the data, where ReLU features are straight
    lines that cannot be distinguished.

    Args:
        stack: the S networks; what the last `nn.Linear` returns must be the output.
        weight_penalty: 1 / (2 lambda_theta^2); with 0 nothing bounds the directions that the data leave open.

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.inputs import ZetaNormal
        >>> from eiv.likelihoods import NormalLikelihood
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> stack = NetworkStack(lambda: paper_network(1, 1, hidden_units=8), 1, 1, seeds, cpu)
        >>> q = LastLayerLaplace(stack, weight_penalty=10.0)
        >>> x = torch.linspace(-1, 1, 40).reshape(1, 40, 1).expand(2, -1, -1)
        >>> rows = Rows(ZetaNormal(x, 0 * x), 2 * x)
        >>> q.finish(rows, NormalLikelihood(torch.full((2, 1), 0.1)), None, Streams(seeds, cpu))
        >>> q.state["root"].shape  # networks, weights of the last layer twice
        torch.Size([2, 9, 9])

    """

    by_hand = True
    shares_draws = True
    trains_a_point = True
    depends_on_noise = True

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        self._found: tuple[Tensor, Directions] | None = None
        called = self._called_layers()
        self.head = called[-1] if called else None
        self._check_head()

    def begin(self, streams: Streams) -> None:
        """Discard the covariance of an earlier training."""
        self.kept.clear()

    @torch.no_grad()
    def finish(self, rows: Rows, likelihood: Likelihood, draws: ZetaDraws | None, streams: Streams) -> None:
        """Find C, and keep its symmetric root, `S x n_w x n_w`; w is `n_y x (h + 1)`, flattened, with the bias last."""
        exact, most_rows, y = self._exact(), _MOST_ROWS, rows.y
        likelihood = likelihood.to(y.device, exact.stack.dtype)
        if draws is not None and draws.quadrature(y.dtype) is None:
            draws, most_rows = ZetaDraws.of("stratified", max(_ZETAS, draws.n_zeta), rows.inputs), _MOST_DRAWN_ROWS
        stride = -(-y.shape[1] // most_rows)
        n_zeta = 1 if draws is None else draws.n_zeta
        chosen = torch.arange(0, y.shape[1], stride, device=y.device)
        information = torch.zeros((), dtype=torch.float64, device=y.device)
        for some in chosen.split(max(1, memory.INFORMATION_PASS // (max(self.stack.width, self.n_weights) * n_zeta))):
            taken = _in_dtype(rows.take(some.expand(len(y), -1)), exact.stack.dtype)
            information = information + (
                exact._information(taken, likelihood)
                if draws is None
                else exact._simulated_information(taken, likelihood, draws, streams, -(-_LABELS // len(chosen)))
            )
        values, vectors = torch.linalg.eigh(information * _times_as_many(rows, chosen))
        # Rounding and the scatter of drawn zetas can make eigenvalues negative.
        inverse_variances = values.clamp_min(0) + 2 * self.penalties.unsqueeze(1)
        inverse_variances = torch.maximum(
            inverse_variances, _LEAST_INVERSE_VARIANCE * inverse_variances.amax(1, keepdim=True)
        )
        root = vectors * inverse_variances.rsqrt().unsqueeze(1) @ vectors.mT  # symmetric, hence unique
        self.kept["root"] = root.to(y.dtype)

    @property
    def n_head_weights(self) -> int:
        """The number of weights of the last layer, including biases."""
        return self._head()[0].numel()

    @property
    def n_weights(self) -> int:
        """The number of weights that vary."""
        return self.n_head_weights

    def kept_shapes(self, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The root of C for each network."""
        return {"root": (self.stack.n_networks, self.n_weights, self.n_weights)}

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw a normal number for each weight that varies: `{head: S x n_draws x n_w}`; none in training."""
        return {"head": streams.normal(n_draws, self.n_weights)} if "root" in self.kept else {}

    def evaluate(self, draw: WeightDraw, zeta: Tensor) -> Tensor:
        """Compute f_theta(zeta): `S x D x R x n_x` to `S x D x R x n_y`."""
        if not draw:
            return super().evaluate(draw, zeta)
        own = zeta[:, :1] if zeta.stride(1) == 0 else zeta  # inputs that all draws share are evaluated once
        exact = self._exact()
        moves = exact._moves(draw)
        parts = exact.stack.blocks(own.to(moves.dtype), self._values_per_row)
        return torch.cat([exact._moved(moves, part) for part in parts], dim=2).to(zeta.dtype)

    @property
    def in_closed_form(self) -> bool:
        """True after training: f is linear in the weights that vary."""
        return "root" in self.kept

    @torch.no_grad()
    def mean(self, zeta: Tensor) -> Tensor:
        """The mean of f at `zeta`, `S x R x n_x`, which is f at the MAP estimate: `S x R x n_y`."""
        return super().evaluate({}, zeta.unsqueeze(1)).squeeze(1)

    @torch.no_grad()
    def theta_variance(self, zeta: Tensor, draw: WeightDraw | None = None) -> ThetaVariance:
        r"""Var f over theta at `zeta`, `S x R x n_x`, and f under each draw minus its mean.

        .. math:: \mathrm{Var}_\theta f = J C J^T, \qquad J (\theta_d - \hat\theta), \qquad
                  J = \nabla_w f_{\hat\theta}(\zeta)
        """
        exact = self._exact()
        moves = None if draw is None else exact._moves(draw)
        width = max(self._values_per_row, 2 * self.stack.n_outputs * self.n_weights)
        parts = exact.stack.blocks(zeta.to(exact.stack.dtype).unsqueeze(1), width)
        directions = exact._directions(zeta.shape[1])
        found = [exact._over_theta(part, moves, directions) for part in parts]
        variance = torch.cat([part.variance for part in found], dim=1)
        of_draws = [part.moves for part in found if part.moves is not None]
        return ThetaVariance(variance, torch.cat(of_draws, dim=2) if of_draws else None)

    def kl(self) -> Tensor:
        """The penalty of the MAP estimate, `S`; after training, plus the terms of the normal distribution."""
        penalty = super().kl()
        if "root" not in self.kept:
            return penalty
        scaled = self.kept["root"].double() * beside((2 * self.penalties).sqrt(), self.kept["root"])
        log_det = 2 * torch.linalg.slogdet(scaled).logabsdet
        rest: Tensor = 0.5 * (scaled.square().sum((1, 2)) - log_det - scaled.shape[1])
        return penalty + torch.where(self.penalties > 0, rest, 0.0).to(penalty.dtype)

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The MAP estimate, in the last layer plus what was drawn."""
        _, of_head = self._onnx_draw(graph)
        moves = self._onnx_moves_of_head(graph, of_head)
        return OnnxTheta(dict(parameters) | {name: graph.add("Add", parameters[name], moves[name]) for name in moves})

    def _onnx_draw(self, graph: OnnxGraph) -> tuple[str, str]:
        """The deviations of drawn weights from the MAP estimate, `n_w`; those of the last layer, `n_y x (h + 1)`."""
        root = self.kept["root"]
        moved = graph.add("MatMul", graph.of_network(root), graph.noise("weights", root.shape[2:]))
        of_head = graph.part(moved, 0, 0, self.n_head_weights)
        return moved, graph.add("Reshape", of_head, graph.constant((self.stack.n_outputs, -1)))

    def _onnx_moves_of_head(self, graph: OnnxGraph, of_head: str) -> dict[str, str]:
        """The deviations of weights and biases of the last layer, by name."""
        return {f"{self.head}.{name}": value for name, value in onnx_layer(graph, of_head).items()}

    def _exact(self) -> Self:
        """The same posterior, in float64 on a GPU, where products may be rounded to ten bits (TF32).

        A relative error of J of 1/2,000 is multiplied by the prior's standard deviation of the weights. The result can
        be many times the standard deviation that the data leave to J (theta - theta_hat).
        """
        return self.in_double() if self._head().is_cuda else self

    def _moves(self, draw: WeightDraw) -> Tensor:
        """The deviations of drawn weights from the MAP estimate, `S x D x n_w`."""
        root = self.kept["root"]
        return draw["head"].to(root.dtype) @ root.mT

    def _over_theta(self, zeta: Tensor, moves: Tensor | None, directions: Directions | None) -> ThetaVariance:
        """As `theta_variance`, for `zeta` of `S x 1 x R x n_x` and `moves` of the weights, `S x D x n_w`."""
        slopes = self._slopes_by_output(self._features(zeta))  # S x R x n_y x n_w
        flat = slopes.flatten(1, 2)
        if directions is None:
            scaled = torch.matmul(flat, self.kept["root"])
            variance = torch.linalg.vecdot(scaled, scaled)
        else:
            variance = directions.variance(flat)
        variance = variance.view(slopes.shape[:3])
        return ThetaVariance(variance, None if moves is None else (moves @ flat.mT).unflatten(2, variance.shape[1:]))

    def _directions(self, n_rows: int) -> Directions | None:
        """The directions of C where they save time: on a CPU, for as many rows as weights or more.

        They are found once and kept beside the root that they belong to. In float32 they would not be exact enough.
        """
        root = self.kept["root"]
        if root.is_cuda or root.dtype != torch.float64:
            return None
        with _ONE_AT_A_TIME:
            if self._found is None or self._found[0] is not root:
                if n_rows < self.n_weights:
                    return None
                self._found = root, Directions.of(root)
            directions = self._found[1]
        return directions if directions.excess.shape[1] <= self.n_weights // 2 else None

    @staticmethod
    def _slopes_by_output(features: Features) -> Tensor:
        """The slopes of each output with respect to all weights, `S x R x n_y x n_w`; `features` have D = 1."""
        last, hidden = features.last.squeeze(1), features.hidden.squeeze(1)
        if hidden.shape[2:] == (1, 0):
            return last.unsqueeze(2)
        outputs = torch.eye(hidden.shape[2], dtype=last.dtype, device=last.device)
        return torch.cat([torch.einsum("jk,srq->srjkq", outputs, last).flatten(3), hidden], dim=3)

    def _information(self, rows: Rows, likelihood: Likelihood) -> Tensor:
        """The Fisher information in rows with exact inputs, in float64: `S x n_w x n_w`."""
        features = self._features(rows.inputs.mean.unsqueeze(1))
        f = torch.matmul(features.last, self._head().mT).squeeze(1)
        scaled = likelihood.whitened(self._slopes_by_output(features).double(), f, rows.y_err)
        if rows.weights is not None:
            scaled = scaled * rows.weights.double().sqrt()[..., None, None]
        found: Tensor = torch.einsum("sbjp,sbjq->spq", scaled, scaled)
        return found

    def _simulated_information(
        self, rows: Rows, likelihood: Likelihood, draws: ZetaDraws, streams: Streams, least_labels: int
    ) -> Tensor:
        """The Fisher information in rows with uncertain inputs, from labels that are drawn: `S x n_w x n_w`."""
        inputs, _, y_err, counts = rows
        n_rows, n_labels = inputs.mean.shape[1], max(_LEAST_LABELS, least_labels)
        own = inputs.draw(streams.normal(n_rows, n_labels, inputs.n_base).to(inputs.mean.dtype))
        f = super().evaluate({}, own)  # S x B x labels x n_y
        labels = likelihood.draw(f, streams, y_err)
        rule = draws.quadrature(f.dtype, f.device)
        # The square of an estimated score includes its Monte Carlo variance. The product of two independent estimates
        # does not.
        sets = [
            self._features(inputs.draw(draws.base(streams, n_rows).to(f.dtype)))  # with L zetas in the place of R
            for _ in range(2 if rule is None else 1)
        ]
        found = torch.zeros((), dtype=torch.float64, device=f.device)
        for i in range(n_labels):
            scores = [self._scores(features, labels[:, :, i], likelihood, y_err, rule).double() for features in sets]
            first = scores[0] if counts is None else scores[0] * counts.double().unsqueeze(2)
            product = first.mT @ scores[-1]
            found = found + (product + product.mT) / (2 * n_labels)
        return found

    def _scores(
        self, features: Features, y: Tensor, likelihood: Likelihood, y_err: Tensor | None, rule: Quadrature | None
    ) -> Tensor:
        """The slopes of each row's log-likelihood with respect to the weights, from those of f: `S x B x n_w`."""
        f = torch.matmul(features.last, self._head().mT)
        slopes = likelihood.add_loss_gradient(f, y, y_err, f.new_zeros(len(f)), 1.0, rule).mul_(-y.shape[1])
        of_last = torch.einsum("sblj,sblq->sbjq", slopes, features.last).flatten(2)
        return torch.cat([of_last, torch.einsum("sblj,sbljm->sbm", slopes, features.hidden)], dim=2)

    @property
    def _values_per_row(self) -> int:
        """The number of values that `_features` holds at once per zeta."""
        return self.stack.width

    def _head_parameter(self, name: str) -> Tensor | None:
        value = self.stack.parameters.get(f"{self.head}.{name}".lstrip("."))
        return None if value is None else value.detach()

    def _head(self) -> Tensor:
        """The weights of the last layer, its bias last: `S x 1 x n_y x (h + 1)`."""
        weight, bias = self._head_parameter("weight"), self._head_parameter("bias")
        assert weight is not None
        return (weight if bias is None else torch.cat([weight, bias.unsqueeze(2)], dim=2)).unsqueeze(1)

    def _moved(self, moves: Tensor, zeta: Tensor) -> Tensor:
        """f(zeta) after `moves` of the weights, `S x D x n_w`; `zeta` is `S x D x R x n_x` or `S x 1 x R x n_x`."""
        last, hidden = self._features(zeta)
        of_last, of_hidden = moves.split([self.n_head_weights, hidden.shape[4]], dim=2)
        heads = self._head() + of_last.unflatten(2, (-1, last.shape[3]))  # S x D x n_y x (h + 1)
        if last.shape[1] == 1 and not hidden.shape[4]:  # one product for all draws
            f = (last.squeeze(1) @ heads.flatten(1, 2).mT).unflatten(2, heads.shape[1:3]).transpose(1, 2)
        else:
            f = torch.matmul(last, heads.mT)
        axes = "sdrjm" if hidden.shape[1] == f.shape[1] else "sarjm"  # the axis a is one long
        found: Tensor = f + torch.einsum(f"{axes},sdm->sdrj", hidden, of_hidden)
        return found

    def _features(self, zeta: Tensor) -> Features:
        """The slopes of f at `zeta`, `S x D x R x n_x`."""
        if isinstance(self.stack, CosineStack):
            last = self.stack.features(zeta)
        else:
            into = torch.stack([into for into, _, _ in self._passes(zeta)])
            last = self._with_one(into).unflatten(1, zeta.shape[1:3])
        return Features(last, last.new_empty(*last.shape[:3], self._head().shape[2], 0))

    def _with_one(self, values: Tensor) -> Tensor:
        """The inputs of the last layer with a one appended for its bias, if it has one."""
        return values if self._head_parameter("bias") is None else nn.functional.pad(values, (0, 1), value=1.0)

    def _passes(self, zeta: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each network, the inputs of its last layer, the outputs of that layer, and those of the module."""
        template = copy.deepcopy(self.stack.template)  # functional_call changes it meanwhile, so each thread needs one
        caught: list[tuple[Tensor, Tensor]] = []
        head = template.get_submodule(self.head or "")
        # The output is copied, since later layers may change it in place.
        head.register_forward_hook(lambda _, inputs, output: caught.append((inputs[0], output.clone())))
        state = self.stack.parameters | self.stack.constants | self.no_masks()
        outputs = [
            functional_call(template, {name: value[s] for name, value in state.items()}, (values.flatten(0, 1),))
            for s, values in enumerate(zeta)
        ]
        return [(into, out, f) for (into, out), f in zip(caught, outputs, strict=False)]

    @torch.no_grad()
    def _called_layers(self) -> list[str]:
        """The names of the linear layers with weights to train, in the order of a forward pass."""
        template, called = copy.deepcopy(self.stack.template), []
        for name, layer in template.named_modules():
            if type(layer) is nn.Linear and f"{name}.weight".lstrip(".") in self.stack.parameters:
                layer.register_forward_pre_hook(lambda *_, name=name: called.append(name))
        state = self.stack.parameters | self.stack.constants | self.no_masks()
        functional_call(template, {name: value[0] for name, value in state.items()}, (self._few_zetas()[0, 0],))
        return called

    def _few_zetas(self) -> Tensor:
        like, n_inputs = next(iter(self.stack.parameters.values())), self.stack.n_inputs
        zeta = torch.linspace(-1, 1, 2 * n_inputs, dtype=like.dtype, device=like.device)
        return zeta.reshape(1, 1, 2, n_inputs).expand(len(like), -1, -1, -1)

    @torch.no_grad()
    def _check_head(self) -> None:
        """Refuse networks whose output is not linear in the weights of the last layer."""
        problem = "module has no nn.Linear with weights to train"
        if self.head is not None:
            passes = self._passes(self._few_zetas())
            if passes and all(out.shape == f.shape and torch.equal(out, f) for _, out, f in passes):
                return
            problem = "the output of module is not that of its last nn.Linear"
        raise ValueError(
            f"posterior: Laplace's approximation needs a network with a linear last layer, but {problem}. Choose "
            "another posterior: 'ensemble', 'swag' and 'mean_field' take any module."
        )


def onnx_layer(graph: OnnxGraph, values: str) -> dict[str, str]:
    """Values of the weights and biases of a layer from `out x (in + 1)`, with the biases last."""
    weight = graph.part(values, 1, 0, -1)
    return {"weight": weight, "bias": graph.add("Squeeze", graph.part(values, 1, -1, None), graph.constant([1]))}


def _in_dtype(rows: Rows, dtype: torch.dtype) -> Rows:
    """The rows with inputs and known errors in another dtype."""
    known = None if rows.y_err is None else rows.y_err.to(dtype)
    return rows._replace(inputs=rows.inputs.to(rows.y.device, dtype), y_err=known)


def _times_as_many(rows: Rows, chosen: Tensor) -> float | Tensor:
    """How many times as many rows there are as are chosen, by their weights: a number, or `S x 1 x 1`."""
    if rows.weights is None:
        return rows.y.shape[1] / len(chosen)
    weights = rows.weights.double()
    return (weights.sum(1) / weights[:, chosen].sum(1))[:, None, None]
