"""`ErrorScaler`: a scaler for pipelines that carries errors along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from eiv import validation as v
from eiv.estimators.carried import inputs_at_fit, inputs_at_predict, stated_at_fit
from eiv.inputs.columns import ErrorColumns
from eiv.scaling import Scaler

__all__ = ["ErrorScaler"]

Array = NDArray[np.float64]


class ErrorScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Standardise the features of a table, and divide the columns that hold their errors by the same numbers.

    .. math:: x_j \mapsto \frac{x_j - \bar x_j}{s_j}, \qquad \sigma_{x,j} \mapsto \frac{\sigma_{x,j}}{s_j}

    For pipelines where another step needs standardised columns. The estimators of eiv need none: they standardise X, y
    and their errors themselves. `sklearn.preprocessing.StandardScaler` would leave errors in the units of before, or
    scale columns that hold errors as if they were features.

    A table of astropy becomes one of pandas, which all of scikit-learn takes; its units are converted to those of the
    fit, and those of errors to those of their features, first.

    Args:
        x_err: which columns of X hold the errors of which others, such as `{"a": "a_err"}`; None where none does.

    Attributes:
        n_features_in_: the columns of X, those that hold errors too.
        feature_names_in_: their names, where X was a table.
        mean_: `columns`, what is subtracted: the means of the features, and 0 for columns that hold errors.
        scale_: `columns`, what is divided by: the standard deviations of the features; 1 for constant ones.

    Examples:
        >>> import pandas as pd
        >>> X = pd.DataFrame({"a": [1.0, 3.0], "a_err": [0.1, 0.2]})
        >>> ErrorScaler({"a": "a_err"}).fit_transform(X)
             a  a_err
        0 -1.0    0.1
        1  1.0    0.2

    """

    def __init__(self, x_err: Mapping[str, str] | None = None) -> None:
        self.x_err = x_err

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the means and standard deviations of the features.

        Args:
            X: `rows x columns`, a table with names where `x_err` names some.
            y: not used.

        Returns:
            The fitted scaler.

        """
        X, X_err, units = inputs_at_fit(X, None, self.x_err)
        _refuse_carried(X_err)
        v.check_numeric("X", X)
        table: Array = validate_data(self, X, dtype=np.float64)
        names = getattr(self, "feature_names_in_", None)
        self._names = stated_at_fit(table, None, self.x_err, names, units).names
        holding = self._holding(names)
        v.check_spread("X", table, names)
        found = Scaler.fit(table)
        self.mean_, self.scale_ = found.shift, np.where(np.isfinite(found.scale), found.scale, 1.0)
        for error, feature in holding.items():
            self.mean_[error], self.scale_[error] = 0.0, self.scale_[feature]
        return self

    def transform(self, X: Any) -> Any:
        """Standardise the rows of a table.

        Args:
            X: `rows x columns`.

        Returns:
            The same columns, as a pandas table where X has names.

        """
        return self._table(X, lambda table: (table - self.mean_) / self.scale_)

    def inverse_transform(self, X: Any) -> Any:
        """Undo `transform`.

        Args:
            X: `rows x columns`, standardised.

        Returns:
            The same columns in the units of before, as a pandas table where X has names.

        """
        return self._table(X, lambda table: table * self.scale_ + self.mean_)

    def _holding(self, names: Sequence[str] | None) -> dict[int, int]:
        """The places of columns that hold errors, and those of their features."""
        columns = ErrorColumns.of(self.x_err, names)
        found: dict[int, int] = {}
        for feature, error in (self.x_err or {}).items() if columns is None else columns.errors.items():
            if columns is None or error not in columns.columns:
                raise ValueError(
                    f"x_err must name columns of X that hold errors, got {error!r} for {feature!r}: an error that is "
                    "no column cannot be scaled with its feature."
                )
            place = columns.columns.index(str(error))
            if place in found:
                raise ValueError(
                    f"x_err: column {error!r} cannot be scaled with two features, {feature!r} and another."
                )
            found[place] = columns.columns.index(feature)
        return found

    def _table(self, X: Any, change: Any) -> Any:
        check_is_fitted(self, "scale_")
        X, X_err = inputs_at_predict(X, None, self._names, self.n_features_in_)
        _refuse_carried(X_err)
        found = change(validate_data(self, X, dtype=np.float64, reset=False))
        if not hasattr(X, "columns"):
            return found
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(found, index=getattr(X, "index", None), columns=list(X.columns))


def _refuse_carried(X_err: Any) -> None:
    """Raise a ValueError where X came with errors in its cells, which the result could not hold."""
    if X_err is not None:
        raise ValueError(
            "X carries errors of its own, which a scaled table cannot hold: give them as columns of X, named by x_err."
        )
