"""ZeroMQ sockets for a loop that waits with select: messages, and news about connections.

The library answers heartbeats, connects again and encrypts, in a thread of its own that never runs Python.
"""

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator

import zmq
from zmq.utils import z85

from ddplaunch.nodes.wire import LARGEST_MESSAGE
from ddplaunch.record import Record

MOST_AT_ONCE = 1000  # messages between two looks at everything else
TOKEN_ROUNDS = 100_000
BACKLOG = 4096  # a thousand nodes may come in the same moment

# In parts of --heartbeat-timeout: how often each end asks for a sign of life, how long that may take, and how
# long a broken connection may stay broken. Together they are less than one.
ASK_SHARE, ANSWER_SHARE, PATIENCE_SHARE = 0.1, 0.1, 0.75

# zmq_socket_monitor(3): an event's first frame is its number and its value. zmq.utils.monitor reads it as
# well, and imports asyncio and ssl for it: 23 ms and 6 MB.
_EVENT = struct.Struct("=hi")

# Contexts end with the process: to terminate one is to wait for its sockets, however long that takes.
_CONTEXTS: "list[zmq.Context[zmq.Socket[bytes]]]" = []

HANDSHAKE_SECONDS = 3.0
CONNECT_SECONDS = 1.0
RECONNECT_SECONDS, RECONNECT_MOST_SECONDS = 0.1, 1.0


class Message(Record):
    """What came, and from which address."""

    frames: tuple[bytes, ...]
    address: str


class Linked(Record):
    """Hands are shaken: messages can be sent."""


class Unlinked(Record):
    """A connection is gone. A ROUTER is not told whose."""


class Unshaken(Record):
    """No handshake came about; `address` is the other side's, where it is known."""

    address: str
    is_refusal: bool  # they did talk, and could not agree; otherwise the other side just left, or was silent
    speaks_otherwise: bool = False  # encrypted on one side, plain on the other
    is_silence: bool = False  # nothing was heard in time


News = Linked | Unlinked | Unshaken


class Channel:
    """A socket and its monitor."""

    def __init__(self, kind: int, token: str, heartbeat_seconds: float) -> None:
        self._context = zmq.Context()
        _CONTEXTS.append(self._context)
        self._context.set(zmq.MAX_SOCKETS, 16)
        self._socket = self._context.socket(kind)
        self._socket.set(zmq.IPV6, 1)
        self._socket.set(zmq.MAXMSGSIZE, LARGEST_MESSAGE)
        set_heartbeat(self._socket, heartbeat_seconds)
        self._socket.set(zmq.HANDSHAKE_IVL, _milliseconds(HANDSHAKE_SECONDS))
        if token:
            self._encrypt(token, kind)
        self._monitor = self._socket.get_monitor_socket()
        self._peers: dict[int, tuple[str, float]] = {}  # by descriptor: address, and since when
        self._failure: Unshaken | None = None

    @property
    def fds(self) -> tuple[int, ...]:
        return int(self._socket.FD), int(self._monitor.FD)

    @property
    def has_input(self) -> bool:
        """A descriptor of ZeroMQ's tells of changes only: before waiting for one, ask."""
        return _is_readable(self._socket) or _is_readable(self._monitor)

    def messages(self) -> Iterator[Message]:
        for _ in range(MOST_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            yield Message(tuple(frame.bytes for frame in frames), _read_address(frames[-1]))

    def news(self) -> Iterator[News]:
        while _is_readable(self._monitor):
            yield from self._read_event(*_EVENT.unpack(self._monitor.recv_multipart()[0]))

    def close(self) -> None:
        """Without waiting for anything; what has to be heard is answered before."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    def _read_event(self, kind: int, value: int) -> Iterator[News]:
        match kind:
            case zmq.EVENT_ACCEPTED:
                self._peers[value] = (_name_peer(value), time.monotonic())
            case zmq.EVENT_HANDSHAKE_SUCCEEDED:
                yield Linked()
            case zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                mismatch = value == zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
                self._failure = Unshaken("", True, mismatch)
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._failure = Unshaken("", is_refusal=False, is_silence=value == errno.EAGAIN)
            case zmq.EVENT_DISCONNECTED:
                yield from self._read_disconnection(value)

    def _read_disconnection(self, fd: int) -> Iterator[News]:
        """A failure is told just before its connection's end; some failures are not told at all."""
        address, since = self._peers.pop(fd, ("", 0.0))
        failure, self._failure = self._failure, None
        if failure is None:
            yield Unlinked()
            if time.monotonic() - since < HANDSHAKE_SECONDS:
                yield Unshaken(address, is_refusal=False)
        else:
            yield failure._replace(address=address)

    def _encrypt(self, token: str, kind: int) -> None:
        """One pair of keys for all: who does not know the token knows neither, and is no peer."""
        import hashlib

        seed = hashlib.pbkdf2_hmac("sha256", token.encode(), b"ddplaunch control channel", TOKEN_ROUNDS)
        secret = z85.encode(seed)
        public = zmq.curve_public(secret)
        self._socket.curve_secretkey, self._socket.curve_publickey = secret, public
        if kind == zmq.ROUTER:
            self._socket.curve_server = True
        else:
            self._socket.curve_serverkey = public


class Router(Channel):
    """Node 0's end."""

    def __init__(self, port: int, token: str, heartbeat_seconds: float) -> None:
        super().__init__(zmq.ROUTER, token, heartbeat_seconds)
        self._socket.set(zmq.ROUTER_MANDATORY, 1)  # else messages to nobody vanish
        self._socket.set(zmq.BACKLOG, BACKLOG)
        try:
            self._socket.bind(f"tcp://*:{port}")
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, error.strerror) from None

    def send(self, peer: bytes, data: bytes) -> bool:
        """False when the connection is gone."""
        try:
            self._socket.send_multipart([peer, data], zmq.NOBLOCK)
        except zmq.Again:  # its reader is slow: what was said before is there, and orders come again
            return True
        except zmq.ZMQError:
            return False
        return True


class Dealer(Channel):
    """The end of every other node."""

    def __init__(self, address: str, port: int, token: str, heartbeat_seconds: float) -> None:
        super().__init__(zmq.DEALER, token, heartbeat_seconds)
        self._socket.set(zmq.IMMEDIATE, 1)  # nothing is kept for a connection that may never come
        self._socket.set(zmq.CONNECT_TIMEOUT, _milliseconds(CONNECT_SECONDS))
        self._socket.set(zmq.RECONNECT_IVL, _milliseconds(RECONNECT_SECONDS))
        self._socket.set(zmq.RECONNECT_IVL_MAX, _milliseconds(RECONNECT_MOST_SECONDS))
        host = f"[{address}]" if ":" in address else address
        self._socket.connect(f"tcp://{host}:{port}")

    def send(self, data: bytes) -> bool:
        """False when there is no connection now.

        EVENTS is asked first: it makes the socket take note of a connection that is up, which a send does
        only if the last time was long enough ago.
        """
        try:
            if not int(self._socket.EVENTS) & zmq.POLLOUT:
                return False
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True


def set_heartbeat(one: "zmq.Socket[bytes]", seconds: float) -> None:
    one.set(zmq.HEARTBEAT_IVL, _milliseconds(seconds * ASK_SHARE))
    one.set(zmq.HEARTBEAT_TIMEOUT, _milliseconds(seconds * ANSWER_SHARE))


def _milliseconds(seconds: float) -> int:
    return min(max(1, round(seconds * 1000)), 1_000_000_000)


def _is_readable(one: "zmq.Socket[bytes]") -> bool:
    return bool(int(one.EVENTS) & zmq.POLLIN)


def _read_address(frame: zmq.Frame) -> str:
    try:
        return _shorten(str(frame.get("Peer-Address")))
    except zmq.ZMQError:
        return ""


def _shorten(address: str) -> str:
    """IPv4 as people write it, also where it came through an IPv6 socket."""
    return address.removeprefix("::ffff:")


def _name_peer(fd: int) -> str:
    """The address at the other end of a connection that the library has accepted; it may be gone again."""
    try:
        copy = os.dup(fd)
    except OSError:
        return ""
    try:
        with socket.socket(fileno=copy) as peer:
            copy = -1
            return _shorten(str(peer.getpeername()[0]))
    except (OSError, IndexError):
        return ""
    finally:
        if copy >= 0:
            os.close(copy)
