"""Functions that save and load models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eiv.io.modelfile.container import complaints, read_file, write_file
from eiv.io.modelfile.header import parse_header, saved_weights

if TYPE_CHECKING:
    from eiv.io.modelfile.contents import Saved
    from eiv.model import FittedModel

__all__ = ["load_model", "read_header", "save_model"]


def save_model(
    model: FittedModel,
    path: str | Path,
    notes: Mapping[str, Any] | None = None,
    changed: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to one file, completely or not at all; `EiVRegressor.save` calls this.

    The same model gives the same bytes. Nothing is pickled. Code of your own, such as a module, a weight posterior or
    an input prior, is not saved; it has to be given again to `load_model`.

    Args:
        model: a fitted model.
        path: the file; an existing one is replaced.
        notes: further entries of the header: numbers, words, lists and mappings of them.
        changed: arguments of the estimator that were changed since the fit.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(EiVRegressor(0.1, epochs=2).fit(X[:, None], y).model_, f"{folder}/m.eiv", {"unit": "mm"})
        ...     read_header(f"{folder}/m.eiv")["notes"]
        {'unit': 'mm'}

    """
    from eiv.io.modelfile.contents import to_file  # noqa: PLC0415  (slow to import)

    header, arrays = to_file(model, changed or {})
    header["notes"] = dict(notes or {})
    try:
        text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"notes must hold finite numbers, words, lists and mappings of them only: {error}.") from error
    write_file(Path(path), text, arrays)


def load_model(path: str | Path, own: Mapping[str, Any] | None = None) -> Saved:
    """Read a model from its file; `EiVRegressor.load` makes an estimator of it.

    Args:
        path: the file.
        own: code of your own that the model was fitted with, by the name of its setting, such as "module".

    Returns:
        The fitted model, and the arguments of the estimator that were changed since the fit. The model has the same
        predictions as the saved one, to the last bit on the same machine.

    Raises:
        ModelFileError: where the file is not a model, is damaged, is of a newer format, or needs code of your own.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.eiv")
        ...     load_model(f"{folder}/m.eiv").model.n_features
        1

    """
    from eiv.io.modelfile.contents import from_file  # noqa: PLC0415  (slow to import)
    from eiv.io.modelfile.own import other_code  # noqa: PLC0415  (slow to import)

    path = Path(path)
    text, arrays = read_file(path)
    with complaints(path):
        header = parse_header(text, path)
        advice = other_code(header, own or {})
    with complaints(path, advice):
        return from_file(header, arrays, own or {}, path)


def read_header(path: str | Path) -> dict[str, Any]:
    """The header of a model file, which describes the model without its weights; the whole file is checked.

    Args:
        path: the file.

    Returns:
        The header: numbers, words, lists and mappings of them, listed in `docs/modelfiles.md`.

    Raises:
        ModelFileError: where the file is not a model, is damaged, or is of a newer format.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     EiVRegressor(0.1, epochs=2).fit(X[:, None], y).save(f"{folder}/m.eiv")
        ...     read_header(f"{folder}/m.eiv")["features"]
        {'n': 1, 'names': None}

    """
    path = Path(path)
    text, _ = read_file(path, with_arrays=False)
    with complaints(path):
        return parse_header(text, path)


def checked_header(path: Path) -> dict[str, Any]:
    """The header, when the file and the weights in it have been checked; the model itself is not made."""
    text, arrays = read_file(path)
    with complaints(path):
        header = parse_header(text, path)
        saved_weights(arrays, header["n_networks"])
        return header
