"""The compiled engine: the loop over the rows of a plan."""
