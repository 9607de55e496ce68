"""The kernels of CUDA devices."""
