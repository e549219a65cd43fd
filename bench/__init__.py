"""The figures of `docs/performance.md`: how they are measured, what they may be, and the page. See `__main__`."""
