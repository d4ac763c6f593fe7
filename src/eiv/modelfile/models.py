"""Models to files and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from eiv.modelfile.container import complaints, read_file, write_file
from eiv.modelfile.contents import Model, from_file, to_file
from eiv.modelfile.header import parse_header

if TYPE_CHECKING:
    from eiv.regressor import EiVRegressor

__all__ = ["load_model", "read_header", "save_model"]


def save_model(model: EiVRegressor, path: str | Path, notes: Mapping[str, Any] | None = None) -> None:
    r"""Write a fitted model to one file, whole or not at all; `EiVRegressor.save` with notes.

    .. math:: (\phi, \sigma_y, \pi(\zeta), \text{scaling}, \text{settings}) \mapsto \text{bytes}

    The same model gives the same bytes. Nothing is pickled. A module of your own is not saved with its weights; it has
    to be given again at load.

    Args:
        model: fitted.
        path: the file; one that is there is replaced.
        notes: what else to keep in the header: numbers, words, lists and mappings of them.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(EiVRegressor(0.1, epochs=2).fit(X[:, None], y), f"{folder}/m.eiv", {"unit": "mm"})
        ...     read_header(f"{folder}/m.eiv")["notes"]
        {'unit': 'mm'}

    """
    check_is_fitted(model, "posterior_")
    header, arrays = to_file(model)
    header["notes"] = dict(notes or {})
    try:
        text = json.dumps(header, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"notes must hold finite numbers, words, lists and mappings of them only: {error}.") from error
    write_file(Path(path), text, arrays)


def load_model(path: str | Path, module: Any = None, kind: type[Model] | None = None) -> Model:
    r"""Read a model from its file; `EiVRegressor.load`.

    .. math:: \text{bytes} \mapsto (\phi, \sigma_y, \pi(\zeta), \text{scaling}, \text{settings})

    Args:
        path: the file.
        module: what `EiVRegressor(module=...)` was, for a model with a network of your own.
        kind: the class of the model; `EiVRegressor`, or one that inherits from it.

    Returns:
        The fitted model, which predicts what the saved one did, to the last bit on the same machine.

    Raises:
        ModelFileError: where the file is not a model, is damaged, is of a newer format, or needs a module.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> from eiv import EiVRegressor
        >>> X, y = np.random.default_rng(0).normal(size=(2, 50))
        >>> model = EiVRegressor(0.1, epochs=2).fit(X[:, None], y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.eiv")
        ...     bool((load_model(f"{folder}/m.eiv").predict([[0.5]]) == model.predict([[0.5]])).all())
        True

    """
    from eiv.regressor import EiVRegressor  # noqa: PLC0415  (which needs this module)

    path = Path(path)
    text, arrays = read_file(path)
    with complaints(path):
        return from_file(parse_header(text, path), arrays, module, kind or EiVRegressor, path)


def read_header(path: str | Path) -> dict[str, Any]:
    r"""What a model file says of its model, without the weights; the whole file is checked all the same.

    .. math:: \text{bytes} \mapsto (\text{format}, \text{versions}, \text{settings}, \text{training}, \text{notes})

    Args:
        path: the file.

    Returns:
        The header: numbers, words, lists and mappings of them, as `docs/modelfiles.md` lists them.

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
