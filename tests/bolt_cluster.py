"""Members of a cluster that speak Bolt 5.3 on loopback: a script of who leads, who follows and what has reached whom.

No database: a write counts up, a read answers how many writes have reached the member that is asked. A follower waits
for nobody; what it lacks reaches it when a bookmark asks for it, as on a real one that has fallen behind.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any, Self

PACKSTREAM: Any = import_module("neo4j._codec.packstream.v1")
"""The driver's own, untyped: the double needs no second one, since what is shown is not how values are packed."""
VERSION = bytes((0, 0, 3, 5))
HELLO, GOODBYE, RESET, RUN, BEGIN, COMMIT, ROLLBACK = 0x01, 0x02, 0x0F, 0x10, 0x11, 0x12, 0x13
DISCARD, PULL, ROUTE, LOGON = 0x2F, 0x3F, 0x66, 0x6A
SUCCESS, RECORD, IGNORED, FAILURE = 0x70, 0x71, 0x7E, 0x7F
NO_LEADER = {"code": "Neo.ClientError.Cluster.NotALeader", "message": "No longer the leader."}


class Cluster:
    """The first member leads. `writes`: how many have been committed."""

    def __init__(self, members: int) -> None:
        self.lock = threading.Lock()
        self.writes = 0
        self.members = [Member(self) for _ in range(members)]
        self.leader = self.members[0]

    def __enter__(self) -> Self:
        for member in self.members:
            member.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.members:
            member.stop()

    @property
    def followers(self) -> "list[Member]":
        return [member for member in self.members if member is not self.leader]

    def elect(self, leader: "Member") -> None:
        """Until somebody asks for the routing table again nobody knows."""
        self.leader = leader

    def routing_table(self, database: str) -> dict[str, Any]:
        alive = [member for member in self.members if member.is_alive]
        readers = [member.address for member in alive if member is not self.leader]
        roles = {"ROUTE": [member.address for member in alive], "READ": readers, "WRITE": [self.leader.address]}
        servers = [{"role": role, "addresses": addresses} for role, addresses in roles.items()]
        return {"rt": {"ttl": 300, "db": database, "servers": servers}}


class Member:
    """`seen`: how often it was sent a read or write; `reached`: how many writes have reached it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.seen: Counter[str] = Counter()
        self.reached = 0
        self.is_alive = True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._open: list[socket.socket] = []

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self.is_alive = False
        for opened in (self._listening, *self._open):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                connected, _ = self._listening.accept()
                self._open.append(connected)
                threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with suppress(OSError, EOFError):  # the other side went, or this member was stopped
            _read(connected, 20)  # the client's magic number, and the versions that it speaks
            connected.sendall(VERSION)
            conversation = _Conversation(self)
            for tag, fields in _messages(connected):
                if tag == GOODBYE:
                    return
                for answer in conversation.answers(tag, fields):
                    connected.sendall(_packed(*answer))


class _Conversation:
    """Of one connection."""

    def __init__(self, member: Member) -> None:
        self._member, self._cluster = member, member.cluster
        self._has_failed = False
        self._mode = ""
        self._is_open = False
        """Whether a transaction was begun that is not one statement's."""

    def answers(self, tag: int, fields: list[Any]) -> Iterator[tuple[int, Any]]:
        if tag == RESET:
            self._has_failed = self._is_open = False
            yield SUCCESS, {}
        elif self._has_failed:
            yield IGNORED, None
        elif tag == HELLO:
            yield SUCCESS, {"server": "Neo4j/5.26.0", "connection_id": "bolt-1"}
        elif tag == ROUTE:
            yield SUCCESS, self._cluster.routing_table(fields[2].get("db") or "neo4j")
        elif tag == BEGIN:
            self._is_open = True
            yield self._begin(fields[0])
        elif tag == RUN:
            begun = (SUCCESS, {}) if self._is_open else self._begin(fields[2])
            yield (SUCCESS, {"fields": ["revision"], "t_first": 0}) if begun[0] == SUCCESS else begun
        elif tag in (PULL, DISCARD):
            if tag == PULL:
                yield RECORD, [self._member.reached]
            yield SUCCESS, {"type": self._mode, "db": "neo4j", **({} if self._is_open else self._commit())}
        elif tag in (COMMIT, ROLLBACK):
            self._is_open = False
            yield SUCCESS, self._commit() if tag == COMMIT else {}
        else:
            yield SUCCESS, {}

    def _begin(self, extra: Mapping[str, Any]) -> tuple[int, Any]:
        self._mode = extra.get("mode", "w")
        with self._cluster.lock:
            self._member.seen[self._mode] += 1
            if self._mode == "w" and self._member is not self._cluster.leader:
                self._has_failed = True
                return FAILURE, NO_LEADER
            bookmarks = [int(bookmark.partition(":")[2]) for bookmark in extra.get("bookmarks", ())]
            self._member.reached = max([self._member.reached, *bookmarks])
        return SUCCESS, {}

    def _commit(self) -> dict[str, Any]:
        with self._cluster.lock:
            if self._mode == "w":
                self._cluster.writes += 1
                self._member.reached = self._cluster.writes
            return {"bookmark": f"write:{self._member.reached}"}


def _packed(tag: int, content: Any) -> bytes:
    buffer = PACKSTREAM.PackableBuffer()
    PACKSTREAM.Packer(buffer).pack_struct(bytes((tag,)), [] if content is None else [content])
    return struct.pack(">H", len(buffer.data)) + bytes(buffer.data) + b"\0\0"


def _messages(connected: socket.socket) -> Iterator[tuple[int, list[Any]]]:
    """Tag and fields of each."""
    message = b""
    while True:
        (size,) = struct.unpack(">H", _read(connected, 2))
        message += _read(connected, size)
        if size or not message:  # more of it follows; an empty one only keeps the connection open
            continue
        unpacker = PACKSTREAM.Unpacker(PACKSTREAM.UnpackableBuffer(message))
        count, tag = unpacker.unpack_structure_header()
        yield ord(tag), [unpacker.unpack() for _ in range(count)]
        message = b""


def _read(connected: socket.socket, size: int) -> bytes:
    """Raises EOFError."""
    data = b""
    while len(data) < size:
        part = connected.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
