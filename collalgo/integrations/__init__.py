"""Integrations: torch, mpi4py, MSCCL, MSCCL++, LogGOPSim and Chakra."""
