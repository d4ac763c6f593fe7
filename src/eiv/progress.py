"""A progress bar for training: loss, sigma_y and time left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

from torch import Tensor


class Report(Protocol):
    """Called at the end of epochs with the loss and sigma_y of each network, `S` and `S x n_y`."""

    def __call__(self, epoch: int, loss: Tensor, y_noise: Tensor) -> None:
        """Note the end of an epoch."""


@contextlib.contextmanager
def training_progress(
    n_epochs: int, y_scale: float, enabled: bool, on_progress: Callable[[float], None] | None = None
) -> Iterator[Report | None]:
    """Show a bar for `n_epochs` epochs where `enabled`, and let `on_progress` know the share that is done.

    `y_scale` turns sigma_y back into units of y.
    """
    if not enabled:
        yield None if on_progress is None else lambda epoch, loss, y_noise: on_progress(epoch / n_epochs)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs  {task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("training", total=n_epochs, state="")

        def report(epoch: int, loss: Tensor, y_noise: Tensor) -> None:
            sigma = y_scale * y_noise.square().mean().sqrt().item()
            bar.update(task, completed=epoch, state=f"loss {loss.mean().item():.4f}  σ_y {sigma:.4g}")
            if on_progress is not None:
                on_progress(epoch / n_epochs)

        yield report


def show_integration(ess: float, gap: float, n_zeta: int) -> None:
    """Show how well training has integrated over the true input."""
    from rich.console import Console  # noqa: PLC0415

    words = f"zetas: {ess:.1f} of {n_zeta} count (effective sample size), gap of the bound {gap:.2g} nats a row"
    Console().print(words, highlight=False, soft_wrap=True)
