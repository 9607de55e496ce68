"""The recovery times of elastic jobs after a disturbance, and their cost without one.

``python -m collalgo.bench.disturbances`` kills workers, agents and leaders of etcds,
pauses members, cuts networks, and starts nodes late, each some times, and compares the
figures with those to be reached. Several hosts are namespaces, which need root.
"""
