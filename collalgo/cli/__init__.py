"""The command ``collalgo``: a file for each command; bench, tune, cluster: bench/."""
