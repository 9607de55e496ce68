"""Integrations with other libraries: torch, mpi4py, MSCCL, MSCCL++, LogGOPSim."""
