"""Kinds and their parts as frozen Structs, generated: one module per API group and version."""
