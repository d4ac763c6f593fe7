"""`eiv predict --input-prior`: a table of another population than the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eiv.cli.modeltable import ModelTable
    from eiv.inputs import InputPrior

_FEWEST = 10  # rows: their spread is known to a quarter, 1 / sqrt(2 (n - 1))


@dataclass(frozen=True)
class Population:
    """The prior of the true inputs of a table, and words for where it comes from."""

    prior: InputPrior
    words: str

    @classmethod
    def of(cls, name: str, table: ModelTable, drop_missing: bool) -> Population:
        """The prior that a name of `EiVRegressor(input_prior=...)` stands for, learned from the rows of the table."""
        import torch  # noqa: PLC0415  (slow to import)

        from eiv.inputs import PRIORS, FlatPrior, LearnedPrior  # noqa: PLC0415
        from eiv.inputs.errors import times  # noqa: PLC0415
        from eiv.inputs.mixed import as_tensor  # noqa: PLC0415
        from eiv.validation import check_option  # noqa: PLC0415

        check_option("--input-prior", name, tuple(PRIORS))
        if table.model.settings.error_model == "berkson":
            raise ValueError(
                "--input-prior has no meaning for error_model='berkson', where zeta given x is N(x, x_err^2) whatever "
                f"is believed of zeta before; got {name}."
            )
        prior = PRIORS[name]
        if not isinstance(prior, LearnedPrior):
            return cls(FlatPrior(), "Prior of the true inputs: flat (--input-prior).")
        sample = table.sample(drop_missing)
        x, stated, _ = table.model.readings(sample.X, sample.X_err)
        errors = times(stated, table.model.factor)
        path = table.source.path
        if not errors.any():
            raise ValueError(f"{path}: --input-prior {name}: the inputs are taken as exact, so a prior has no effect.")
        if len(sample) < _FEWEST:
            raise ValueError(
                f"{path}: --input-prior {name} learns from the rows of the table, {_FEWEST} at least; it has "
                f"{len(sample)}."
            )
        learned = prior.fit(
            torch.tensor(x),
            as_tensor(errors),
            name=f"{path}: --input-prior {name}: the error",
            feature_names=table.features,
        )
        return cls(learned, f"Prior of the true inputs: learned from {len(sample):,} rows of {path} ({name}).")
