"""Units, parsing, caches, output files and plotting; no collectives."""
