"""What is kept for the SDK: all that is not answered directly, and since when it waits."""

import time

import anyio

from waygraph.api.mcp.direct.plain import Document, RequestId, is_notification, plain


class Kept:
    def __init__(self) -> None:
        self.wanted = anyio.Event()
        """Something is for the SDK to answer."""
        self._bytes = bytearray()
        self._since: dict[RequestId, float] = {}

    def __len__(self) -> int:
        return len(self._bytes)

    def take(self) -> bytes:
        taken, self._bytes = bytes(self._bytes), bytearray()
        return taken

    def add(self, piece: bytes) -> None:
        self._bytes += piece

    def awaits(self, piece: bytes, message: Document | None) -> None:
        """The same of what waits for the SDK to come; `message`: what the piece says, as far as it is one."""
        self.add(piece)
        if message is None:
            if piece.strip():
                self.wanted.set()
            return
        if not is_notification(message):
            self.wanted.set()
        if request := plain(message):
            self._since[request.id] = time.monotonic()

    def waited_s(self, request_id: RequestId | None) -> float:
        """How long a request was kept that is not answered; 0: it did not wait."""
        since = self._since.get(request_id) if request_id is not None else None
        return time.monotonic() - since if since is not None else 0.0

    def is_answered(self, request_id: RequestId) -> None:
        """Another one may bear its id now."""
        self._since.pop(request_id, None)
