"""The command ``collalgo``: one file for each of its commands."""
