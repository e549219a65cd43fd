"""A real Kubernetes on a bare Linux machine."""
