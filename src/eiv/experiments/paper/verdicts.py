"""Claims, their conditions, and the verdicts on them.

A condition holds where its statistic is on the right side of its bounds by two standard errors, fails where it is on
the wrong side by two, and is undecided in between. A claim holds where all its conditions do, does not hold where one
fails, and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

__all__ = ["Claim", "Condition", "Verdict", "claims_table"]

Verdict = Literal["holds", "does not hold", "cannot tell", "not run"]
_ERRORS = 2.0  # the number of standard errors that decides


@dataclass(frozen=True)
class Condition:
    r"""One number that a claim depends on.

    The condition holds where

    .. math:: \text{low} + 2\,\mathrm{s.e.} \le v \le \text{high} - 2\,\mathrm{s.e.}

    Attributes:
        subject: the data set (and model) that the number is about.
        value: v, the statistic.
        error: s.e., its standard error, over the networks unless the claim says otherwise.
        low: the lower bound.
        high: the upper bound.

    Examples:
        >>> Condition("linear", value=0.95, error=0.01, low=0.92, high=0.98).verdict
        'holds'
        >>> Condition("linear", value=0.93, error=0.01, low=0.92, high=0.98).verdict
        'cannot tell'

    """

    subject: str
    value: float
    error: float
    low: float = -np.inf
    high: float = np.inf

    @property
    def verdict(self) -> Verdict:
        """Whether the value is within its bounds."""
        margin = _ERRORS * self.error
        if self.low + margin <= self.value <= self.high - margin:
            return "holds"
        outside = self.value + margin < self.low or self.value - margin > self.high
        return "does not hold" if outside else "cannot tell"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, in our words, with the conditions that test it.

    Attributes:
        name: a short name.
        where: the place in the paper.
        sentence: the claim.
        statistic: the quantity that is measured.
        rule: the rule by which the claim holds.
        conditions: the numbers, with their bounds.

    Examples:
        >>> claim = Claim("c", "section 3", "It is so.", "v", "v > 0", (Condition("linear", 1.0, 0.1, low=0.0),))
        >>> claim.verdict
        'holds'

    """

    name: str
    where: str
    sentence: str
    statistic: str
    rule: str
    conditions: tuple[Condition, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict of all conditions together."""
        found = {condition.verdict for condition in self.conditions}
        if not found:
            return "not run"
        worse: tuple[Verdict, ...] = ("does not hold", "cannot tell")
        return next((verdict for verdict in worse if verdict in found), "holds")

    @property
    def exceptions(self) -> tuple[str, ...]:
        """The subjects that keep the claim from holding."""
        return tuple(c.subject for c in self.conditions if c.verdict != "holds")


def claims_table(claims: Iterable[Claim]) -> pd.DataFrame:
    """One row per condition, for a file.

    Args:
        claims: the claims, from `check_claims`.

    Returns:
        The table.

    Examples:
        >>> claims_table([Claim("c", "section 3", "It is so.", "v", "v > 0", (Condition("linear", 1.0, 0.1),))]).shape
        (1, 11)

    """
    return pd.DataFrame(
        [
            {
                "claim": claim.name,
                "where": claim.where,
                "sentence": claim.sentence,
                "statistic": claim.statistic,
                "rule": claim.rule,
                "claim_verdict": claim.verdict,
                "subject": condition.subject,
                "value": condition.value,
                "error": condition.error,
                "verdict": condition.verdict,
                "bounds": f"[{condition.low:g}, {condition.high:g}]",
            }
            for claim in claims
            for condition in claim.conditions
        ]
    )
