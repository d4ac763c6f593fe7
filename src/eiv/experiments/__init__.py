"""The reproduction of the paper and the studies, by the public API; runs that resume."""
