"""stranger.py HOST PORT WHAT: somebody who writes to a control port and is no node of the run."""

import random
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

import zmq

GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + b"\0" + bytes(31)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"  # the rest of ZMTP's handshake
MESSAGES = (
    b"",
    b"{}",
    b"null",
    b'{"version": 1, "type": "Status", "body": {}}',
    b'{"version": 2, "type": "Status", "body": {}}',
    b"[" * 100_000,
)

Place = tuple[str, int]


def send_noise(place: Place) -> None:
    """Before, in and after the handshake."""
    chance = random.Random(1)
    for number in range(90):
        with socket.create_connection(place) as wire, suppress(OSError):
            noise = chance.randbytes(chance.randrange(1, 5000))
            wire.sendall((b"", GREETING, GREETING + READY)[number % 3] + noise)


def send_huge_frames(place: Place) -> None:
    for size in (1 << 21, 1 << 40, (1 << 63) - 1):
        with socket.create_connection(place) as wire, suppress(OSError):  # it hangs up on us
            wire.sendall(GREETING + READY + b"\x02" + struct.pack(">Q", size))
            for _ in range(64):
                wire.sendall(bytes(1 << 16))


def send_strange_messages(place: Place) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(f"tcp://{place[0]}:{place[1]}")
        for message in MESSAGES:
            peer.send_multipart([message] * 5)
            peer.send(message)
        assert peer.poll(30_000)
        print(peer.recv().decode())  # only another version is answered


def knock_and_leave(place: Place) -> None:
    wires = [socket.create_connection(place) for _ in range(300)]
    for wire in wires:
        wire.close()


def knock_and_stay(place: Place) -> None:
    wires = [socket.create_connection(place) for _ in range(300)]
    print("done", flush=True)
    sys.stdin.read()
    del wires


WHAT: dict[str, Callable[[Place], None]] = {
    "noise": send_noise,
    "huge": send_huge_frames,
    "strange": send_strange_messages,
    "leave": knock_and_leave,
    "stay": knock_and_stay,
}

if __name__ == "__main__":
    WHAT[sys.argv[3]]((sys.argv[1], int(sys.argv[2])))
    print("done", flush=True)
