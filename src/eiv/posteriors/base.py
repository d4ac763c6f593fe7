"""What every family of weight posteriors offers: the paper's three requirements on q_phi."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from torch import Tensor

from eiv.networks import NetworkStack
from eiv.streams import Streams

__all__ = ["WeightDraw", "WeightPosterior"]

WeightDraw = dict[str, Tensor]
"""D draws of theta for each network, by the randomness behind them: tensors with axes `S x D` first."""


class WeightPosterior(Protocol):
    r"""A family q_phi that approximates the posterior of the weights, eq. (idea_var_inf).

    .. math:: \pi(\theta | \mathcal{D}, \sigma^2) \approx q_\phi(\theta)

    The paper asks three things of it: that it can be sampled (`draw`), that its divergence from the prior is known
    (`kl`), and that gradients with respect to phi pass through a draw (`evaluate`).

    Attributes:
        stack: the S networks.
        parameters: phi, leaves with the axis S first.

    Examples:
        >>> from eiv.posteriors import FAMILIES
        >>> sorted(FAMILIES)
        ['bernoulli_dropout']

    """

    stack: NetworkStack

    @property
    def parameters(self) -> Sequence[Tensor]:
        """Phi: what training moves."""

    def draw(self, streams: Streams, n_draws: int) -> WeightDraw:
        """Draw theta `n_draws` times for each network, from its own stream."""

    def evaluate(self, draw: WeightDraw, zeta: Tensor) -> Tensor:
        """Compute f_theta(zeta): `S x D x R x n_x` to `S x D x R x n_y`; draw d serves the R inputs `zeta[:, d]`."""

    @property
    def weight_decay(self) -> float | None:
        """The number c with d kl / d phi = c phi, where there is one: Adam then takes the gradient's share itself."""

    def kl(self) -> Tensor:
        """The divergence of q_phi from the prior N(0, lambda_theta^2), up to a constant: `S`."""

    def join(self, others: Sequence[Self]) -> Self:
        """One posterior of this one's networks and those of `others`, in order."""

    def split(self, sizes: Sequence[int]) -> Sequence[Self]:
        """Part the stack into stacks of `sizes` networks."""


@runtime_checkable
class HasState(Protocol):
    """A family that keeps tensors of its own beside the weights of its networks; model files hold them too."""

    def state(self) -> dict[str, Tensor]:
        """Those tensors by name."""

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take them over, on the device of the parameters; a ValueError where names or shapes are wrong."""
