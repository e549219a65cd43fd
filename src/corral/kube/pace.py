"""Is a stream busy: does so much come so fast that the next pieces are worth waiting for together?

Waking up for a piece costs several times what the piece costs, so a busy stream is read a few dozen times a second and
not a thousand times. One that is not busy is never kept waiting, nor is a short burst.
"""

FLOOD_BYTES_MIN = 1 << 16  # at once, as in a first list
QUICK_S, QUICK_PIECES_MIN = 0.01, 16  # as when a hundred workers start


class Pace:
    def __init__(self) -> None:
        self._quick_in_a_row = 0
        self.is_busy = False

    def came(self, size: int, after_s: float) -> None:
        """`size` bytes came, `after_s` after they were asked for."""
        self._quick_in_a_row = self._quick_in_a_row + 1 if after_s < QUICK_S else 0
        self.is_busy = size >= FLOOD_BYTES_MIN or self._quick_in_a_row >= QUICK_PIECES_MIN
