"""Fits without steps: cosine features whose kernel and noise are those that make the labels most probable."""

from eiv.training.evidence.fit import Fitted as Fitted
from eiv.training.evidence.fit import evidence_of as evidence_of
from eiv.training.evidence.fit import fit_by_evidence as fit_by_evidence
from eiv.training.evidence.pool import MEMBERS as MEMBERS
from eiv.training.evidence.search import n_rounds as n_rounds
