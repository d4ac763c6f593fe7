"""The code that makes many small networks fast: products, kernels, graphs, Adam, workers and random streams."""
