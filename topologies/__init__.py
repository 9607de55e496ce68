"""Machines as data: a file for each, in the project's own format.

They are written from published facts, which each file names; the speeds of links are
parameters. ``collalgo.Topology.load`` reads them.
"""
