"""What users write, one folder a kind. `corral.kinds.registry` lists those that the operator runs."""
