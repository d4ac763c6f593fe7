"""Studies of coverage and accuracy: recipes, weight posteriors, and other methods on many tables."""
