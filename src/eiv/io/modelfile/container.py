"""The bytes of a model file: a safetensors file whose metadata hold a JSON header and a digest of every other byte."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
from numpy.typing import NDArray

import eiv
from eiv.io.files import written_whole

__all__ = ["ModelFileError"]

Arrays = dict[str, NDArray[Any]]

_MOST_HEADER = 2**25  # bytes; the header for a thousand features has some ten thousand
_START = b'{"__metadata__":{"sha256":"'  # a model file begins with the length of its header and these bytes
_NO_DIGEST = b"0" * 64
_CHUNK = 2**20
_NAMES = {  # the names of number types in a safetensors file
    np.dtype(kind): name
    for kind, name in {
        "<f8": "F64",
        "<i8": "I64",
        "<u8": "U64",
        "<f4": "F32",
        "<i4": "I32",
        "<u4": "U32",
        "<i2": "I16",
        "<u2": "U16",
        "i1": "I8",
        "u1": "U8",
        "?": "BOOL",
    }.items()
}
_TYPES = {name: kind for kind, name in _NAMES.items()}
_OTHERS = {
    b"PK": "a zip archive, such as torch.save writes",
    b"\x80": "a pickle, which is not opened because it can run any program",
}


class ModelFileError(ValueError):
    """A file that is not a model, is damaged, or needs something that is missing.

    Examples:
        >>> raise ModelFileError("model.eiv is damaged.")
        Traceback (most recent call last):
        ...
        eiv.io.modelfile.container.ModelFileError: model.eiv is damaged.

    """


def write_file(path: Path, header: str, arrays: Arrays) -> None:
    """Write a header and arrays as one file, completely or not at all."""
    ordered = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # aligned in memory
    start = _start_of(header, {name: arrays[name] for name in ordered})
    digest = hashlib.sha256(start)
    for name in ordered:
        digest.update(arrays[name].data)
    with written_whole(path) as part, part.open("wb") as file:
        file.write(start.replace(_NO_DIGEST, digest.hexdigest().encode(), 1))
        for name in ordered:
            file.write(arrays[name].data)


def read_file(path: Path, *, with_arrays: bool = True) -> tuple[str, Arrays]:
    """The header and the arrays of a file, after all of it has been compared with its digest."""
    with _opened(path) as (file, size), complaints(path):
        start = _checked_start(file, size, path)
        header = json.loads(start[8:])["__metadata__"]["eiv"]
        if not isinstance(header, str):
            raise TypeError("there is no header")
        return header, _arrays(start + file.read()) if with_arrays else {}


def _arrays(content: bytes) -> Arrays:
    """The arrays in the content of a file, which the safetensors library has checked."""
    arrays = {}
    for name, part in safetensors.deserialize(content):  # type: ignore[no-untyped-call]
        kind = _TYPES[part["dtype"]]
        if math.prod(max(1, n) for n in part["shape"]) * kind.itemsize > len(content):  # an empty array can claim any
            raise ValueError(f"{name} has the shape {part['shape']}, more than the file has")
        arrays[name] = np.frombuffer(part["data"], kind).reshape(part["shape"]).copy()
    return arrays


def _start_of(header: str, arrays: Arrays) -> bytes:
    """The bytes of a safetensors file before the arrays; the library's own writer puts the metadata in random order."""
    content: dict[str, Any] = {"__metadata__": {"sha256": _NO_DIGEST.decode(), "eiv": header}}
    end = 0
    for name, value in arrays.items():
        begin, end = end, end + value.nbytes
        if value.dtype not in _NAMES:
            raise ValueError(f"A tensor of type {value.dtype} ({name!r}) cannot be saved.")
        content[name] = {"dtype": _NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise ValueError(f"The header would have {len(text):,} bytes, more than {_MOST_HEADER:,}.")
    return len(text).to_bytes(8, "little") + text


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if not path.is_file():
        raise ModelFileError(f"{path} is not a file.")
    with path.open("rb") as file:
        yield file, path.stat().st_size


def _checked_start(file: IO[bytes], size: int, path: Path) -> bytes:
    """The bytes before the arrays, after the whole file has been compared with its digest; `file` is at the arrays."""
    start = file.read(8 + len(_START))
    if start[8:] != _START:
        what = next((words for magic, words in _OTHERS.items() if start.startswith(magic)), "")
        raise ModelFileError(f"{path} is not a model file of eiv" + (f": it is {what}." if what else "."))
    length = int.from_bytes(start[:8], "little")
    if length > min(_MOST_HEADER, size - 8):
        raise ModelFileError(f"{path} is damaged: its header would have {length:,} bytes, the file has {size:,}.")
    start += file.read(8 + length - len(start))
    place = slice(8 + len(_START), 8 + len(_START) + len(_NO_DIGEST))
    digest = hashlib.sha256(start[: place.start] + _NO_DIGEST + start[place.stop :])
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    if digest.hexdigest().encode() != start[place]:
        raise ModelFileError(f"{path} is damaged or incomplete: its content does not match its digest.")
    file.seek(len(start))
    return start


@contextlib.contextmanager
def complaints(path: Path, advice: str = "") -> Iterator[None]:
    """Turn every exception that a forged header can cause into a `ModelFileError`, which ends with the advice."""
    try:
        yield
    except ModelFileError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RuntimeError,
        OverflowError,
        safetensors.SafetensorError,
    ) as error:
        raise ModelFileError(f"{path} is not a model that eiv {eiv.__version__} can read: {error}{advice}") from error
