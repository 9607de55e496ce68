"""Key-value stores that several processes share: one protocol, two implementations.

:mod:`~.protocol` says what a store does; :mod:`~.server` and :mod:`~.client` are the
embedded store, :mod:`~.etcd` uses an etcd that runs already.
"""
