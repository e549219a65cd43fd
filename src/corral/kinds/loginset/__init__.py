"""LoginSet: nodes that people log in to by ssh."""
