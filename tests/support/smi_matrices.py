"""Matrices as nvidia-smi and its likes print them."""


def smi(cells, rest=lambda _: "0-31\t0"):
    """A matrix of nvidia-smi."""
    labels = [f"GPU{i}" for i in range(len(cells))]
    rows = ["\t".join([labels[i], *row, rest(i)]) for i, row in enumerate(cells)]
    head = "\t".join(["", *labels, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    return "\n".join([head, *rows])


def paths(size, cell):
    """The cells of a matrix, from a function of two numbers."""
    return [[" X " if i == k else cell(i, k) for k in range(size)] for i in range(size)]


def about(topology, *words):
    """The warnings that have all these words."""
    return [text for text in topology.warnings if all(word in text for word in words)]
