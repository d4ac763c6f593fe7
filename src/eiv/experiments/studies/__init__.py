"""Studies: what each ingredient does to coverage and accuracy, measured on problems whose truth is known."""
