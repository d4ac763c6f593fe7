"""The reproduction of the paper: settings, runs, figures, claims and the report."""
