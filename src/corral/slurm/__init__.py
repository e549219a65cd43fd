"""Speaking Slurm: REST, tokens, node and job states, hostlists, configuration files. No Kubernetes in it."""
