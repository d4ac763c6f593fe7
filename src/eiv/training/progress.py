"""A progress bar for training: loss, sigma_y and time left."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from torch import Tensor

from eiv.extras import is_installed
from eiv.likelihoods import Likelihood

Progress = Callable[[float], None] | None
"""Called with the share of the work that is done, or None."""


class Share(float):
    """The share of the work that is done, with words for what is being done; empty where it is still the same."""

    what: str

    def __new__(cls, value: float, what: str = "") -> Share:
        """A number with words."""
        share = super().__new__(cls, value)
        share.what = what
        return share


def part_of(on_progress: Progress, i: int, n: int) -> Progress:
    """A function that takes the progress of the i-th of n parts."""
    return between(on_progress, i / n, (i + 1) / n)


def between(on_progress: Progress, start: float, end: float) -> Progress:
    """A function that takes the progress of the part of the work from one share to another."""
    if on_progress is None:
        return None
    return lambda done: on_progress(Share(start + (end - start) * done, getattr(done, "what", "")))


def tell(on_progress: Progress, share: float, what: str) -> None:
    """Say what share of the work is done, and what is being done now."""
    if on_progress is not None:
        on_progress(Share(share, what))


def joint(on_progress: Progress, n: int) -> list[Progress]:
    """Functions that take the progress of n parts which run side by side."""
    if on_progress is None:
        return [None] * n
    done, one_by_one = [0.0] * n, threading.Lock()

    def part(place: int) -> Callable[[float], None]:
        def report(share: float) -> None:
            with one_by_one:
                done[place] = share
                on_progress(Share(sum(done) / n, getattr(share, "what", "")))

        return report

    return [part(place) for place in range(n)]


class Report(Protocol):
    """Called at the end of epochs with the loss of each network, `S`, and their likelihood."""

    def __call__(self, epoch: int, loss: Tensor, likelihood: Likelihood) -> None:
        """Note the end of an epoch."""


@contextlib.contextmanager
def training_progress(
    n_epochs: int,
    y_scale: float,
    enabled: bool,
    on_progress: Callable[[float], None] | None = None,
    unit: str = "epochs",
) -> Iterator[Report | None]:
    """Show a bar for `n_epochs` epochs where `enabled`, and let `on_progress` know the share that is done.

    `y_scale` turns the likelihood back into units of y; `unit` is what epochs are called.
    """
    if not enabled:
        yield None if on_progress is None else lambda epoch, loss, likelihood: _tell(on_progress, epoch, n_epochs)
        return
    if not is_installed("rich"):
        yield _in_lines(n_epochs, y_scale, on_progress, unit)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit}  {{task.fields[state]}}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("training", total=n_epochs, state="")

        def report(epoch: int, loss: Tensor, likelihood: Likelihood) -> None:
            words = f"loss {loss.mean().item():.4f}  {likelihood.in_words(y_scale)}"
            bar.update(task, completed=epoch, state=words)
            _tell(on_progress, epoch, n_epochs)

        yield report


def _tell(on_progress: Progress, epoch: int, n_epochs: int) -> None:
    done = epoch == n_epochs
    tell(on_progress, epoch / n_epochs, "covariance of the weights" if done else "training")


def _in_lines(n_epochs: int, y_scale: float, on_progress: Callable[[float], None] | None, unit: str) -> Report:
    """Ten lines instead of a bar, where rich is not installed; in ASCII, which every terminal can show."""
    n_lines = 0

    def report(epoch: int, loss: Tensor, likelihood: Likelihood) -> None:
        nonlocal n_lines
        if 10 * epoch // n_epochs > n_lines:
            n_lines = 10 * epoch // n_epochs
            state = likelihood.in_words(y_scale).replace("σ", "sigma").encode("ascii", "replace").decode()
            print(f"training {epoch}/{n_epochs} {unit}  loss {loss.mean().item():.4f}  {state}", flush=True)
        _tell(on_progress, epoch, n_epochs)

    return report


def show_integration(ess: float, gap: float, n_zeta: int) -> None:
    """Show how well training has integrated over the true input."""
    print(f"zetas: {ess:.1f} of {n_zeta} count (effective sample size), gap of the bound {gap:.2g} nats per row")
