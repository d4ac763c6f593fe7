"""Optional packages, each of an extra that installs it, such as `eiv[cli]`; and names that are loaded on first use."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence

__all__ = ["MissingExtraError", "is_installed", "needs"]


class MissingExtraError(ImportError):
    """A package that this use of eiv needs is missing; the message names the extra to install.

    Examples:
        >>> raise MissingExtraError('eiv report needs jinja2, which is missing: pip install "eiv[report]"')
        Traceback (most recent call last):
        ...
        eiv.extras.MissingExtraError: eiv report needs jinja2, which is missing: pip install "eiv[report]"

    """


def needs(what: str, *packages: str, extra: str) -> None:
    """Raise a `MissingExtraError` where one of `packages`, which `extra` of eiv installs, is missing.

    Nothing is imported, so that long work can check this before it begins.

    Args:
        what: the use that needs the packages; the message begins with it.
        packages: the names under which they are imported.
        extra: the extra that installs them.

    Examples:
        >>> needs("eiv report", "jinja2", "matplotlib", extra="report")

    """
    missing = [package for package in packages if not is_installed(package)]
    if missing:
        *others, last = missing
        words = f"{', '.join(others)} and {last}, which are missing" if others else f"{last}, which is missing"
        raise MissingExtraError(f'{what} needs {words}: pip install "eiv[{extra}]"')


def is_installed(package: str) -> bool:
    """Whether a package can be imported; a folder of the same name without code does not count.

    Examples:
        >>> is_installed("eiv"), is_installed("no_such_package")
        (True, False)

    """
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:
        return False
    return spec is not None and spec.origin is not None


def on_first_use(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a package that loads its names, by the modules that define them, when they are first used.

    Examples:
        >>> on_first_use("eiv", {"eiv.extras": ("needs",)})("needs") is needs
        True

    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def found(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home_of[name]), name)

    return found
