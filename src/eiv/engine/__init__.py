"""What makes many small networks fast: products, kernels, graphs, Adam, workers, random streams, memory limits."""
