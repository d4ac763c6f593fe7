"""Labels that are classes: the probability of each is the softmax of the outputs of the network."""

from __future__ import annotations

from typing import NoReturn, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eiv.engine.streams import Streams
from eiv.likelihoods.base import Likelihood
from eiv.likelihoods.noise import NoiseRule

__all__ = ["CategoricalLikelihood"]


class CategoricalLikelihood(Likelihood):
    r"""The probability of a class given the outputs of the network at the true input.

    .. math:: \log p(y = c | \theta, \zeta_l) = f_{\theta,c}(\zeta_l) - \log \sum_{c'} \exp f_{\theta,c'}(\zeta_l)

    A label is a row of zeros with a one in the column of its class, so that y is `rows x C`. The network has one output
    for each class. It learns nothing besides the weights: what is not determined about a label is in the probabilities.
    It assumes that the class depends on the true input alone, not on the error of x, and that classes in y are right.
    It costs C outputs of the network instead of one, and predictions take every weight draw at many zetas, since the
    mean of probabilities has no closed form. It misses mistaken labels, which are taken for classes that overlap. Far
    from the training rows its probabilities are too sure.

    Args:
        n_classes: C.

    Examples:
        >>> likelihood = CategoricalLikelihood(2)
        >>> likelihood.log_density(torch.zeros(1, 1, 1, 2), torch.tensor([[[0.0, 1.0]]])).exp()
        tensor([[[0.5000]]])
        >>> likelihood.score(torch.zeros(1, 1, 1, 2), torch.tensor([[[0.0, 1.0]]]))
        tensor([[[[-0.5000,  0.5000]]]])

    """

    has_units = False

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    @classmethod
    def start(cls, y_noise: Tensor, rule: NoiseRule | None) -> Self:
        """The likelihood of as many classes as `y_noise` has columns; classes have no noise in a unit of y."""
        return cls(y_noise.shape[1])

    @property
    def state(self) -> dict[str, Tensor]:
        """Nothing is fitted."""
        return {}

    def with_state(self, state: dict[str, Tensor]) -> Self:
        """The same likelihood."""
        return type(self)(self.n_classes)

    def log_density(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The logarithm of the probability of the class of each row, `S x B x L`."""
        return (f.log_softmax(-1) * y.unsqueeze(2)).sum(-1)

    def log_mean_density(self, f: Tensor, change: Tensor, y: Tensor, y_err: Tensor) -> Tensor:
        """The logarithm of the probability in the middle, `S x B`: probabilities do not have narrow peaks."""
        return self.log_density(f.unsqueeze(2), y).squeeze(2)

    def score(self, f: Tensor, y: Tensor, y_err: Tensor | None = None) -> Tensor:
        """The slope: the label less the probabilities, `S x B x L x C`."""
        return y.unsqueeze(2) - f.softmax(-1)

    def whitened(self, slopes: Tensor, f: Tensor, y_err: Tensor | None = None) -> Tensor:
        r"""The slopes less their mean over the classes, times the root of the probabilities p.

        .. math:: R^T J = \mathrm{diag}(\sqrt p) (J - 1 p^T J), \qquad R R^T = \mathrm{diag}(p) - p p^T
        """
        p = f.to(slopes.dtype).softmax(-1).unsqueeze(-1)
        return p.sqrt() * (slopes - (p * slopes).sum(-2, keepdim=True))

    def draw(self, f: Tensor, streams: Streams, y_err: Tensor | None = None) -> Tensor:
        """Draw a class for each f, as zeros and a one: `S x B x L x C`."""
        ends = f.double().softmax(-1).cumsum(-1)
        levels = streams.uniform(*f.shape[1:-1]).to(ends).unsqueeze(-1) * ends[..., -1:]
        chosen = torch.searchsorted(ends, levels).clamp_max(self.n_classes - 1)
        return torch.zeros_like(f).scatter_(-1, chosen, 1.0)

    def std(self, pool: Tensor | None = None) -> NDArray[np.float64]:
        """Zero for each class: nothing scatters in a unit of y."""
        return np.zeros(self.n_classes)

    def labels(
        self,
        y_scale: NDArray[np.float64],
        shape: tuple[int, ...],
        y_err: NDArray[np.float64] | None = None,
        pool: Tensor | None = None,
    ) -> NoReturn:
        """Classes do not scatter about f; `FittedModel.predict_classes` has their probabilities."""
        raise TypeError("Classes do not scatter about f in a unit of y: ask eiv.EiVClassifier for their probabilities.")
