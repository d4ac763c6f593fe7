"""SWAG: a normal distribution from the optimiser's path."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from eiv.engine.streams import Streams
from eiv.inputs import Rows, ZetaDraws
from eiv.likelihoods import Likelihood
from eiv.networks import NetworkStack
from eiv.posteriors.base import PointPosterior, Theta, WeightDraw
from eiv.posteriors.exported import OnnxGraph, OnnxTheta

__all__ = ["SWAG"]

_SHARE = 0.25  # the share of the epochs, counted from the end, whose weights are recorded
_RANK = 20  # the most snapshots in the low-rank term
_LEAST_STD = 1e-6
_STD = "spread"  # the name of the standard deviations in model files


class SWAG(PointPosterior):
    r"""A low-rank normal distribution fitted to the weights at the ends of the last quarter of epochs.

    .. math::
        \theta \sim \mathcal{N}\Big(\bar\phi,\; \tfrac12 \mathrm{diag}(d^2) + \frac{1}{2 (K - 1)} D D^T\Big), \qquad
        D_{KL} = \frac{|\bar\phi|^2 + \mathrm{tr}\, C}{2 \lambda_\theta^2} - \frac12 \log\det \frac{C}{\lambda_\theta^2}
        - \frac{n_\theta}{2}

    with mean :math:`\bar\phi` and standard deviation d of the weights at the ends of those epochs, and the deviations D
    of the last K = 20 of them (Maddox et al., 2019, "stochastic weight averaging, Gaussian"). C is the covariance.

    Training finds the MAP estimate under N(0, lambda_theta^2), without randomness in the weights; dropout layers drop
    nothing. It costs no more than Bernoulli dropout, and one copy of the weights per epoch. A prediction draws
    `n_theta` copies of the weights. All rows and all zetas share a theta.

    The covariance is that of the optimiser's path near its end. It depends on the step size and the minibatches, not on
    Bayes' rule. It does not shrink as N grows tenfold. Where training has not converged it includes the remaining
    drift.

    Args:
        stack: the S networks.
        weight_penalty: 1 / (2 lambda_theta^2).

    Examples:
        >>> from numpy.random import SeedSequence
        >>> from eiv.networks import paper_network
        >>> seeds, cpu = SeedSequence(0).spawn(2), torch.device("cpu")
        >>> q = SWAG(NetworkStack(lambda: paper_network(1, 1), 1, 1, seeds, cpu), weight_penalty=10.0)
        >>> q.draw(Streams(seeds, cpu), n_draws=4)  # a point before training has come to its end
        {}

    """

    by_hand = True
    shares_draws = True
    trains_a_point = True
    matched_parts = ("path",)

    def __init__(self, stack: NetworkStack, weight_penalty: float | Tensor) -> None:
        super().__init__(stack, weight_penalty)
        self._restart()

    def begin(self, streams: Streams) -> None:
        """Discard the path of an earlier training."""
        self._restart()
        self.kept.clear()

    def observe(self, epoch: int, epochs: int) -> None:
        """Add the weights at the end of one of the last epochs to the moments of the path."""
        if epoch <= min(int((1 - _SHARE) * epochs), epochs - 2):
            return
        self._seen += 1
        for name, value in self.stack.parameters.items():
            now = value.detach()
            mean = self._means.setdefault(name, torch.zeros_like(now))
            squares = self._squares.setdefault(name, torch.zeros_like(now))
            before = now - mean
            mean += before / self._seen
            squares += before * (now - mean)  # Welford's update
            self._snapshots.setdefault(name, []).append(now.clone())
            del self._snapshots[name][:-_RANK]

    def finish(self, rows: Rows, likelihood: Likelihood, draws: ZetaDraws | None, streams: Streams) -> None:
        """Set the weights to the mean of the path, and keep its standard deviations and snapshots about that mean."""
        if self._seen < 2:
            raise ValueError("epochs must be at least 2 for posterior='swag', which compares the weights of epochs.")
        for name, value in self.stack.parameters.items():
            mean, snapshots = self._means[name], torch.stack(self._snapshots[name], dim=1)
            std = (self._squares[name] / (2 * (self._seen - 1))).sqrt()
            self.kept[f"{_STD}.{name}"] = std.clamp_min(_LEAST_STD)
            self.kept[f"path.{name}"] = (snapshots - mean.unsqueeze(1)) / (2 * (snapshots.shape[1] - 1)) ** 0.5
            value.data.copy_(mean)
        self._restart()

    def kept_shapes(self, found: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Standard deviations in the shapes of the parameters, and the snapshots, 20 at most."""
        rank = next((shape[1] for name, shape in found.items() if name.startswith("path.") and len(shape) > 1), 0)
        shapes: dict[str, tuple[int, ...]] = {}
        for name, value in self.stack.parameters.items():
            shapes[f"{_STD}.{name}"] = tuple(value.shape)
            shapes[f"path.{name}"] = (len(value), min(max(rank, 1), _RANK), *value.shape[1:])
        return shapes

    def std_of(self, name: str) -> Tensor:
        """The standard deviations of a parameter that the snapshots do not explain: `S x shape`."""
        return self.kept[f"{_STD}.{name}"]

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw a normal number per weight and one per snapshot, for `n_draws` thetas per network."""
        if not self.kept:
            return {}
        noise = {name: streams.normal(n_draws, *value.shape[1:]) for name, value in self.stack.parameters.items()}
        rank = next(value.shape[1] for name, value in self.kept.items() if name.startswith("path."))
        return noise | {"path": streams.normal(n_draws, rank)}

    def theta(self, draw: WeightDraw) -> Theta:
        """The weights of each draw; for an empty draw, as in training, the current weights."""
        if not draw:
            return super().theta(draw)
        parameters = {}
        for name, mean in self.stack.parameters.items():
            along = torch.einsum("sdk,sk...->sd...", draw["path"], self.kept[f"path.{name}"])
            across = self.std_of(name).unsqueeze(1) * draw[name]
            parameters[name] = along.add_(across).add_(mean.detach().unsqueeze(1)).flatten(0, 1)
        return Theta(self.no_masks(draw["path"].shape[1]), parameters)

    def kl(self) -> Tensor:
        """The penalty of the mean; once training has ended, the divergence of the normal distribution, `S`."""
        penalty = super().kl()
        if not self.kept:
            return penalty
        stds, paths = (
            torch.cat([self.kept[f"{kind}.{name}"].flatten(first) for name in self.stack.parameters], dim=-1).double()
            for kind, first in ((_STD, 1), ("path", 2))
        )  # S x n, S x K x n
        trace = stds.square().sum(1) + paths.square().sum((1, 2))
        scaled = paths / stds.unsqueeze(1)
        low_rank = torch.eye(paths.shape[1], dtype=paths.dtype, device=paths.device) + scaled @ scaled.mT
        log_det = 2 * stds.log().sum(1) + torch.logdet(low_rank)  # matrix determinant lemma
        n_weights, inverse_variances = stds.shape[1], 2 * self.penalties
        rest = 0.5 * (inverse_variances * trace - log_det - n_weights * (1 + inverse_variances.log()))
        return penalty + torch.where(inverse_variances > 0, rest, 0.0).to(penalty.dtype)

    def onnx_theta(self, graph: OnnxGraph, parameters: Mapping[str, str]) -> OnnxTheta:
        """The weights of a draw, as in `theta`."""
        rank = next(value.shape[1] for name, value in self.kept.items() if name.startswith("path."))
        along = graph.add("Unsqueeze", graph.noise("path", (rank,)), graph.constant([0]))  # 1 x K
        drawn = {}
        for name, mean in parameters.items():
            shape = self.stack.parameters[name].shape[1:]
            path = graph.of_network(self.kept[f"path.{name}"].flatten(2))  # K x weights
            moved = graph.add("Reshape", graph.add("MatMul", along, path), graph.constant(shape))
            across = graph.add("Mul", graph.of_network(self.std_of(name)), graph.noise(name, shape))
            drawn[name] = graph.add("Add", mean, graph.add("Add", moved, across))
        return OnnxTheta(drawn)

    def _restart(self) -> None:
        self._seen = 0
        self._means: dict[str, Tensor] = {}
        self._squares: dict[str, Tensor] = {}
        self._snapshots: dict[str, list[Tensor]] = {}
