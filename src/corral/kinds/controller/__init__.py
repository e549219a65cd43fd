"""Controller: slurmctld with its keys, its configuration and its state."""
