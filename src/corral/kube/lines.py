"""Cut a stream of bytes where lines end, however the network tore it.

An object may be 1.5 MiB and come in hundreds of chunks, so a chunk is searched once, when it comes, and joined once,
when its line ends.
"""

LINE_BYTES_MAX = 64 << 20  # forty times what etcd stores of one object; beyond it the peer is not a Kubernetes


class LineTooLong(Exception):
    pass


class Lines:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> bytes:
        """The lines that this chunk completes, as one piece: most chunks end where a line does and are not copied."""
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            self._hold(chunk)
            return b""
        complete = chunk[:end]
        if self._parts:
            self._parts.append(complete)
            complete = self.rest()
        if end < len(chunk):
            self._hold(chunk[end:])
        return complete

    def rest(self) -> bytes:
        """What came after the last end of line; it is forgotten here."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return rest

    def _hold(self, part: bytes) -> None:
        self._parts.append(part)
        self._held += len(part)
        if self._held > LINE_BYTES_MAX:
            raise LineTooLong(f"a line of more than {LINE_BYTES_MAX >> 20} MiB")
