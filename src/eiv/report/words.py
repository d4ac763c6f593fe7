"""Plain sentences for numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SMALL, _LARGE = 0.02, 0.2  # shares of the variance of a new label


def verdict(scores: Mapping[str, float], where: str, exact: bool) -> str:
    """A sentence that says whether the errors of the inputs matter; `where` says for which rows."""
    if exact:
        return "Whether input errors matter here cannot be said: none were given."
    if not scores["aleatoric"] and not scores["epistemic"]:
        return f"The input errors do not matter here: the predicted curve is constant ({where})."
    of_label = (scores["aleatoric"] / scores["total"]) ** 2
    of_curve = scores["aleatoric"] ** 2 / (scores["aleatoric"] ** 2 + scores["epistemic"] ** 2)
    how = "hardly matter" if of_label < _SMALL else "matter" if of_label < _LARGE else "matter a lot"
    return (
        f"The input errors {how} here: they make up {100 * of_label:.0f} % of the variance of a new label, and "
        f"{100 * of_curve:.0f} % of that of the predicted curve ({where})."
    )


def coverage_verdict(inside: float, n_rows: int) -> str:
    """Words for the share of labels inside their 95 % intervals: among the likely 95 % of a binomial number, or not."""
    from scipy.stats import binom  # noqa: PLC0415  (slow to import)

    low, high = binom.interval(0.95, n_rows, 0.95)
    if low <= round(inside * n_rows) <= high:
        return "as it should be, within chance"
    return "too few, so the intervals are too narrow" if inside < 0.95 else "too many, so the intervals are too wide"


def factor_sentence(factor: float, given: object) -> str:
    """That stated errors of X are not taken as they are, which the labels or the argument `given` say; empty if not."""
    if factor == 1:
        return ""
    size = f"taken at {factor:g} of their size" if factor else "ignored"
    why = "since the labels contradict them" if given in (None, "auto") else f"as x_err_factor={factor:g} says"
    return f"Stated errors of X are {size}, {why}; x_err_factor=1 takes them as stated."


def scatter_sentence(described: str) -> str:
    """How labels scatter about the curve, from the words of a likelihood; empty where there are none."""
    return f"Labels scatter about the curve by {described}." if described else ""


def number(value: float, digits: int = 3) -> str:
    """A number for a sentence or a table; large ones in full."""
    large = 10**digits <= abs(value) < 1e9
    return f"{value:,.0f}" if large else f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share in per cent for a sentence or a table, with no line break before the sign."""
    return f"{round(100 * share, 1) + 0.0:.1f}\u00a0%"  # -0.0 + 0.0 is 0.0


def counted(n: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; of many names the first ones, and the number of the others."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]])) if shown else ""
