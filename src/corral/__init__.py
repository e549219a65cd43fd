"""Corral runs Slurm clusters, and virtual machines, on Kubernetes."""

__version__ = "0.1.0"
