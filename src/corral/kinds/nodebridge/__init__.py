"""NodeBridge: a bridge on nodes, for virtual machines to be attached to. For admins only: it is of no namespace."""
