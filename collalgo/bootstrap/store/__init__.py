"""A key-value store over which ranks meet: its server, its clients, and what travels.

What travels is authenticated by a secret of the job and parsed, never unpickled.
"""
