"""Emulate a cluster on one machine: hosts are namespaces, links have given rates.

The cluster is described by a topology file in the project's own format, so schedules
are priced on the same topology that they run on.
"""
