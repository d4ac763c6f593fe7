"""eiv as two stages of RAIL, the pipelines for photometric redshifts: `pip install "eiv[qp]" pz-rail-base`.

The informer fits magnitudes with their errors to redshifts, the estimator gives a distribution of the redshift of each
galaxy. `EivInformer.make_stage(name="inform", bands=["u", "g"], errors=["u_err", "g_err"]).inform(table)` fits.
"""

from __future__ import annotations

import numpy as np
from ceci.config import StageParameter
from rail.core.common_params import SharedParams
from rail.estimation.estimator import CatEstimator
from rail.estimation.informer import CatInformer

from eiv import EiVRegressor

COLUMNS = {
    "bands": StageParameter(list, [], msg="the columns of magnitudes or colours"),
    "errors": StageParameter(list, [], msg="the columns of their standard deviations, in the same order"),
}


def inputs_of(table, config):
    """The magnitudes of a table and their errors, `rows x bands` each."""
    return tuple(np.column_stack([np.asarray(table[name], float) for name in names]) for names in columns_of(config))


def columns_of(config):
    bands, errors = list(config.bands), list(config.errors)
    if not bands or len(bands) != len(errors):
        raise ValueError(f"errors must name a column for each of bands, got {errors} for {bands}.")
    return bands, errors


class EivInformer(CatInformer):
    """Fit `EiVRegressor` to magnitudes, their errors and redshifts."""

    name = "EivInformer"
    config_options = CatInformer.config_options.copy()
    config_options.update(
        **COLUMNS,
        redshift_col=SharedParams.copy_param("redshift_col"),
        seed=StageParameter(int, 0, msg="the seed"),
        settings=StageParameter(dict, {}, msg="further arguments of EiVRegressor"),
    )

    def run(self):
        data = self.get_data("input")
        table = data[self.config.hdf5_groupname] if self.config.hdf5_groupname else data
        X, X_err = inputs_of(table, self.config)
        model = EiVRegressor(**{"random_state": self.config.seed, **dict(self.config.settings)})
        self.model = model.fit(X, np.asarray(table[self.config.redshift_col], float), X_err=X_err)
        self.add_data("model", self.model)

    def validate(self):
        columns = [name for names in columns_of(self.config) for name in names]
        self._check_column_names(self.get_handle("input", allow_missing=True), [*columns, self.config.redshift_col])


class EivEstimator(CatEstimator):
    """The distribution of the redshift of each galaxy, as quantiles."""

    name = "EivEstimator"
    config_options = CatEstimator.config_options.copy()
    config_options.update(**COLUMNS, n_quantiles=StageParameter(int, 99, msg="quantiles of each distribution"))

    def _process_chunk(self, start, end, data, first):
        X, X_err = inputs_of(data, self.config)
        p = self.model.predict_distribution(X, X_err=X_err, keep_draws=True)
        ensemble = p.to_qp(of="label", n_quantiles=self.config.n_quantiles)
        ensemble.set_ancil({"zmean": p.mean, "zstd": p.total})
        self._do_chunk_output(ensemble, start, end, first, data=data)

    def validate(self):
        columns = [name for names in columns_of(self.config) for name in names]
        self._check_column_names(self.get_handle("input", allow_missing=True), columns)
