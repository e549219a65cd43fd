"""The reconcile engine: observe, plan, act, report."""
