"""NodeSet: a group of Slurm nodes, each a pod."""
