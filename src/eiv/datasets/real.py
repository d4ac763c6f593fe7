"""The nine real data sets of the paper: found in a folder, in the cache, or at their public source."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eiv.datasets._catalogue import REAL, Description, Download
from eiv.datasets._download import fetch
from eiv.datasets._parsers import commas, gunzip
from eiv.datasets.simulated import SIMULATED
from eiv.io.files import write_whole
from eiv.validation import check_option

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REAL", "DataNotFoundError", "RealData", "load", "overview"]

Array = NDArray[np.float64]

# With this shift, printed decimals are at least 0.0005 cell widths from the edge of a cell; 0 or 0.5 would put some
# on an edge.
OFFSET = 0.2555


class DataNotFoundError(FileNotFoundError):
    """A data set is not at hand and cannot be downloaded; the message says which file to put where.

    Examples:
        >>> raise DataNotFoundError("The data set 'yacht' is not at hand.")
        Traceback (most recent call last):
        ...
        eiv.datasets.real.DataNotFoundError: The data set 'yacht' is not at hand.

    """


@dataclass(frozen=True)
class RealData:
    """The rows of a real data set, in their original order and units.

    Attributes:
        name: its name in `REAL`, which has its origin and licence.
        X: a pandas table of `rows x n_x`, the features.
        y: a pandas Series of `rows`, the target.
        path: the file the rows were read from; None where they were downloaded and could not be saved.

    Examples:
        >>> data = load("yacht")  # doctest: +SKIP
        >>> data.X.shape, data.y.name  # doctest: +SKIP
        ((308, 6), 'residuary_resistance')

    """

    name: str
    X: pd.DataFrame
    y: pd.Series
    path: Path | None


def load(name: str, target: str | None = None) -> RealData:
    """Load one of the nine real data sets.

    Its table is looked for in the folder that the environment variable EIV_DATA names, then in the user's cache
    (EIV_CACHE, or the platform's folder for caches). Otherwise the original is downloaded, from mirror/host/path if
    EIV_MIRROR is set, and the table is kept in the cache. The content of the table is always compared with a digest.

    Args:
        name: "yacht", "naval", "protein", "concrete", "kin8nm", "wine", "power", "energy" or "california".
        target: the target column; by default that of the common benchmark. "naval" and "energy" have two.

    Returns:
        The features as a table (`rows x n_x`) and the target (`rows`); other targets are not among the features.

    Raises:
        DataNotFoundError: where the data set is not at hand and cannot be downloaded.
        ValueError: where the file in the folder EIV_DATA is not that data set.

    Examples:
        >>> data = load("energy", target="cooling_load")  # doctest: +SKIP
        >>> REAL["energy"].targets, REAL["energy"].n_rows, REAL["energy"].licence
        (('heating_load', 'cooling_load'), 768, 'CC BY 4.0')

    """
    check_option("name", name, tuple(REAL))
    description = REAL[name]
    if target is None:
        target = description.default_target
    check_option("target", target, description.targets)
    values, path = _find(description)

    import pandas as pd  # noqa: PLC0415

    table = pd.DataFrame(values, columns=list(description.columns))
    return RealData(name, X=table[list(description.features)], y=table[target], path=path)


def overview() -> pd.DataFrame:
    """All thirteen data sets: size, source, licence and whether they are at hand.

    Returns:
        A table with the columns name, kind ("simulated" or "real"), rows, features, source, licence and at_hand. The
        last one is the file of a real set, or "no". Files are not read here; `load` checks their content.

    Examples:
        >>> overview()[["name", "rows", "features"]].head(5)
                name  rows  features
        0     linear   500         1
        1  quadratic   500         1
        2      cubic  1000         1
        3       sine  2000         1
        4      yacht   308         6

    """
    import pandas as pd  # noqa: PLC0415

    simulated = [
        {
            "name": name,
            "kind": "simulated",
            "rows": problem.n_rows,
            "features": 1,
            "source": "table sim_data of the paper",
            "licence": "none needed",
            "at_hand": "simulated",
        }
        for name, problem in SIMULATED.items()
    ]
    real = [
        {
            "name": name,
            "kind": "real",
            "rows": description.n_rows,
            "features": len(description.features),
            "source": description.source,
            "licence": description.licence,
            "at_hand": str(_file_in(_data_folder(), description) or _file_in(cache_folder(), description) or "no"),
        }
        for name, description in REAL.items()
    ]
    return pd.DataFrame(simulated + real)


def cache_folder() -> Path:
    """The folder for downloads: EIV_CACHE, or a folder `eiv` in the platform's folder for caches."""
    if chosen := os.environ.get("EIV_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "eiv" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "eiv"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eiv"


def content_digest(values: Array, columns: tuple[str, ...], decimals: int) -> str:
    r"""SHA-256 of the content of a table: its column names, its shape and the cell of each value v.

    .. math:: \lfloor 10^d v + 0.2555 \rfloor

    The digest does not depend on compression or on the way in which numbers are printed. A change of any value by
    :math:`10^{-d}` or more changes it. Smaller changes, such as the 5e-11 by which public copies of kin8nm differ, do
    not, because no value of the nine sets is that close to the edge of its cell; a test checks this.
    """
    with np.errstate(over="ignore"):
        cells = np.floor(values * 10.0**decimals + OFFSET)
    head = "\n".join([*columns, "x".join(map(str, values.shape)), ""])
    return hashlib.sha256(head.encode() + np.ascontiguousarray(cells, dtype="<f8").tobytes()).hexdigest()


def _find(description: Description) -> tuple[Array, Path | None]:
    given = _file_in(_data_folder(), description)
    if given is not None:
        try:
            return _read_table(given, description), given
        except ValueError as error:
            raise ValueError(
                f"{given} is not the data set {description.name!r}: {error}. "
                "Replace it or take it out of the folder that EIV_DATA names."
            ) from error
    failures = []
    kept = _file_in(cache_folder(), description)
    if kept is not None:
        try:
            return _read_table(kept, description), kept
        except ValueError as error:
            failures.append(f"  {kept}: {error}")  # the download replaces it
    values = _download(description, failures)
    return values, _keep(values, description)


def _download(description: Description, failures: list[str]) -> Array:
    """The table from the first of its public addresses that sends it complete and unchanged."""
    for download in description.downloads:
        try:
            return _checked(_parse(fetch(download.url), download), description)
        except (OSError, ValueError, ImportError) as error:
            failures.append(f"  {download.url}: {error}")
    raise DataNotFoundError(_help(description, failures))


def _parse(raw: bytes, download: Download) -> Array:
    """Read a downloaded file; every error becomes a ValueError."""
    try:
        return download.read(raw)
    except ImportError:
        raise
    except Exception as error:
        raise ValueError(f"the file is damaged or of another layout ({type(error).__name__}: {error})") from error


def _help(description: Description, failures: list[str]) -> str:
    folder = _data_folder()
    here = "which is not set" if folder is None else f"now {folder}, where it is missing"
    if mirror := os.environ.get("EIV_MIRROR"):
        failures = [*failures, f"  (EIV_MIRROR sends these requests to {mirror}.)"]
    return "\n".join(
        [
            f"The data set {description.name!r} is not at hand and could not be downloaded:",
            *failures,
            f"Put the file {description.file} into the folder that EIV_DATA names ({here})",
            f"or into the cache folder {cache_folder()}.",
            f"It is a comma-separated table of {description.n_rows} rows; its header: {','.join(description.columns)}.",
            f"On a machine with internet access, load({description.name!r}) writes it to the cache folder there.",
            f"About the data: {description.url}",
        ]
    )


def _data_folder() -> Path | None:
    chosen = os.environ.get("EIV_DATA")
    return Path(chosen).expanduser() if chosen else None


def _file_in(folder: Path | None, description: Description) -> Path | None:
    """The file of the data set in `folder`, gzip-compressed or not; None if there is none."""
    if folder is None:
        return None
    plain = description.file.removesuffix(".gz")
    paths = [folder / name for name in (description.file, plain, f"{plain}.gz")]
    return next((path for path in paths if path.is_file()), None)


def _read_table(path: Path, description: Description) -> Array:
    try:
        raw = gunzip(path.read_bytes())
        header = raw[: raw.find(b"\n")].decode("utf-8-sig").strip()
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"it cannot be read ({error})") from error
    columns = tuple(name.strip().strip('"') for name in header.split(","))
    if columns != description.columns:
        raise ValueError(f"its columns are {', '.join(columns)[:500]} instead of {', '.join(description.columns)}")
    return _checked(commas(raw), description)


def _checked(values: Array, description: Description) -> Array:
    shape = (description.n_rows, len(description.columns))
    if values.shape != shape:
        raise ValueError(f"the table has the shape {values.shape} instead of {shape}")
    digest = content_digest(values, description.columns, description.decimals)
    if digest != description.digest:
        raise ValueError(
            f"values differ from the published ones (digest {digest[:12]}... instead of {description.digest[:12]}...)"
        )
    return values


def _keep(values: Array, description: Description) -> Path | None:
    """Write a table to the cache, every number in its shortest exact form; its path, or None with a warning."""
    path = cache_folder() / description.file
    rows = (",".join(repr(value).removesuffix(".0") for value in row) for row in values.tolist())
    raw = "\n".join([",".join(description.columns), *rows, ""]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, gzip.compress(raw, compresslevel=6, mtime=0) if path.suffix == ".gz" else raw)
    except (OSError, ValueError) as error:
        warnings.warn(f"The data set {description.name!r} could not be kept in {path.parent}: {error}.", stacklevel=4)
        return None
    return path
