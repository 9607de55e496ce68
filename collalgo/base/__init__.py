"""Units, parsing, caches and plotting: nothing of collectives."""
