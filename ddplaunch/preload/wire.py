"""What launcher and preloader say to each other: JSON behind its length, descriptors beside it."""

import json
import os
import socket
from collections.abc import Sequence

from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MOST_DESCRIPTORS = 4
_LENGTH_BYTES = 8


def send_message(channel: socket.socket, message: "dict[str, Any]", descriptors: Sequence[int] = ()) -> None:
    data = json.dumps(message).encode()
    socket.send_fds(channel, [len(data).to_bytes(_LENGTH_BYTES, "big")], descriptors)
    channel.sendall(data)


def receive_message(channel: socket.socket) -> "tuple[dict[str, Any], list[int]]":
    """The next message and its descriptors; EOFError when there is nobody left to send one."""
    head, descriptors, flags, _ = socket.recv_fds(channel, _LENGTH_BYTES, MOST_DESCRIPTORS)
    if flags & socket.MSG_CTRUNC:
        raise OSError("out of file descriptors")
    head += _read(channel, _LENGTH_BYTES - len(head))
    return json.loads(_read(channel, int.from_bytes(head, "big"))), descriptors


def _read(channel: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = channel.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


def encode_words(words: Sequence[str]) -> list[str]:
    """Bytes are data, whatever the two processes take them for: JSON has them as Latin-1."""
    return [os.fsencode(word).decode("latin-1") for word in words]


def decode_words(words: Sequence[str]) -> list[str]:
    return [os.fsdecode(word.encode("latin-1")) for word in words]
