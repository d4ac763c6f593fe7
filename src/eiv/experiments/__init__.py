"""The reproduction of the paper and the studies, by the public API; runs that resume."""

from eiv.extras import needs

needs("eiv.experiments", "rich", extra="cli")  # for progress bars
