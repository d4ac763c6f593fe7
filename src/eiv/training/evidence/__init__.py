"""Fits without steps: cosine features whose kernel and noise are those that make the labels most probable.

They rest on normal labels: f is linear in weights with a normal prior, so that with normal noise the probability of the
labels has a closed form, which every module here writes out. Another likelihood has no such form. It is refused for
`network="cosine"`, and with it the automatic choice trains by steps.
"""

from eiv.training.evidence.fit import Fitted as Fitted
from eiv.training.evidence.fit import KernelSearch as KernelSearch
from eiv.training.evidence.fit import fit_by_evidence as fit_by_evidence
from eiv.training.evidence.left_out import LeftOut as LeftOut
from eiv.training.evidence.pool import MEMBERS as MEMBERS
from eiv.training.evidence.search import Found as Found
from eiv.training.evidence.search import n_rounds as n_rounds
