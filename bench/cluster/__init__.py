"""A cluster on one machine: hosts are namespaces, links have the rates of a file.

The file is a topology of the project's own format, so what the schedules run on is also
what they are priced on.
"""
