"""What users write, one folder a kind."""
