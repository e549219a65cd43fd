"""Is a stream busy: does so much come so fast that the next pieces are worth waiting for together?

Waking up for a piece costs several times what the piece costs, so a busy stream is read a few times a second and
not a thousand times. One that is not busy is never kept waiting, nor is a short burst.
"""

FLOOD_BYTES_MIN = 1 << 16  # at once, as in a first list
BUSY_GAP_S_MAX = 0.02  # between pieces on average, as when a hundred workers start
GAP_S_MAX = 0.1  # a longer pause counts no more than this, so that one pause in a flood is not its end
NEWEST_WEIGHT = 1 / 16


class Pace:
    def __init__(self) -> None:
        self._gap_s = GAP_S_MAX
        self.is_busy = False

    def came(self, size: int, after_s: float) -> None:
        """`size` bytes came, `after_s` after they were asked for."""
        self._gap_s += (min(after_s, GAP_S_MAX) - self._gap_s) * NEWEST_WEIGHT
        self.is_busy = size >= FLOOD_BYTES_MIN or self._gap_s < BUSY_GAP_S_MAX
