"""The recovery times of elastic jobs after a disturbance.

``python -m collalgo.bench.disturbances agent pause leader partition`` makes each of the
events some times: it kills the agent of a node, pauses a member, kills the leader of an
etcd of three members, which it starts, or cuts a network in two.
"""
