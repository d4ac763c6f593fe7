"""What makes many small networks fast: passes, kernels, graphs, Adam, workers and random streams."""
