"""RestApi: slurmrestd."""
