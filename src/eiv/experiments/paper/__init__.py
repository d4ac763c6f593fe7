"""The whole paper again: settings, runs, figures, claims and the report, by nothing but the public API."""
