"""Slurm's configuration files: written, read, checked, merged, compared. Pure functions of texts and frozen values."""
