"""Speaking Kubernetes: credentials, transport, verbs, watch, models."""
