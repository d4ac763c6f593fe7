"""The reproduction of the paper and the studies, which use the public API only; runs can be resumed."""

from eiv.extras import needs

needs("eiv.experiments", "rich", extra="cli")  # for progress bars; joblib comes with scikit-learn
