"""Corral in a cluster: its rights and manifests, how they get there, a first Slurm cluster and a first job."""
