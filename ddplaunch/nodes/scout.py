"""Finding node 0: a child process that may wait for DNS and for connections as long as they take.

The launcher itself never waits for either: getaddrinfo cannot be interrupted, and Ctrl-C has to be heard.
"""

import json
import os
import signal
from contextlib import suppress

from ddplaunch.record import TYPE_CHECKING, Record
from ddplaunch.supervise.processes import fork_quietly, reap

if TYPE_CHECKING:
    from typing import NoReturn

REACH_SECONDS = 2.0


class Finding(Record):
    """What a scout saw; `error` says why the address is of no use."""

    addresses: tuple[str, ...] = ()
    reached: str = ""  # the address that answered
    error: str = ""
    is_refused: bool = False  # the machine is there, and nobody listens
    is_local: bool = False  # an address of this very machine


class Scout:
    """One look, underway. `fd` is readable when it is over."""

    def __init__(self, host: str, port: int, connects: bool) -> None:
        self.fd, write = os.pipe()
        self._pid = fork_quietly(lambda: _look(host, port, connects, write))
        os.close(write)

    def read(self) -> Finding:
        """Its report; the scout is over then."""
        chunks = []
        while chunk := os.read(self.fd, 65536):
            chunks.append(chunk)
        self.end()
        try:
            found = json.loads(b"".join(chunks))
            return Finding(**{**found, "addresses": tuple(found["addresses"])})
        except (ValueError, TypeError, KeyError):
            return Finding(error="the look-up was cut short")

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        reap(self._pid)
        os.close(self.fd)


def _look(host: str, port: int, connects: bool, write: int) -> "NoReturn":
    try:
        signal.set_wakeup_fd(-1)
        os.dup2(write, 0)
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))
        os.write(0, json.dumps(find_master(host, port, connects)._asdict()).encode())
    finally:
        os._exit(0)


def find_master(host: str, port: int, connects: bool) -> Finding:
    import socket

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        return Finding(error=f"{host} does not resolve: {reason}")
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    is_local = any(_is_own(entry[0], entry[4]) for entry in found)
    if not connects:
        return Finding(addresses, is_local=is_local)
    tried, refusals = [], 0
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            probe.settimeout(REACH_SECONDS)
            try:
                probe.connect(address)
                return Finding(addresses, reached=str(address[0]), is_local=is_local)
            except OSError as error:
                refusals += isinstance(error, ConnectionRefusedError)
                reason = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
                tried.append(f"{address[0]}: {reason.lower()}")
    return Finding(
        addresses, error=", ".join(dict.fromkeys(tried)), is_refused=refusals == len(found), is_local=is_local
    )


def _is_own(family: int, address: tuple[object, ...]) -> bool:
    """Only an address of this machine can be bound."""
    import socket

    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
        return True
