"""The scikit-learn front door for labels that are classes."""

from eiv.classifier.estimator import EiVClassifier

__all__ = ["EiVClassifier"]
