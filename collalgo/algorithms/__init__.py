"""The algorithms: one file for each family, and one table of all."""
