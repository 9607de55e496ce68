"""Key-value stores that several processes share: one protocol, two implementations.

:mod:`~.protocol` defines a store; :mod:`~.server` and :mod:`~.client` are the
embedded store, :mod:`~.etcd` uses an etcd that runs already.
"""
