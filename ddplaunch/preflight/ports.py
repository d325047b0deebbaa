"""A port that is ours before anybody listens on it, and the name of whoever holds it otherwise."""

import _socket as socket  # the socket module makes enums of all its constants: 2 ms of every start
import errno
import sys

# /proc/net/tcp, "st" column.
_LISTEN = "0A"


class PortTakenError(Exception):
    """Someone else has the port; `holder` names them as well as this system lets us."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class Reservation:
    """A port that is held until close()."""

    def __init__(self, *sockets: socket.socket) -> None:
        self._sockets = sockets
        self.port: int = sockets[0].getsockname()[1]

    def close(self) -> None:
        for held in self._sockets:
            held.close()


def reserve_port(port: int) -> Reservation:
    """Hold `port` (0: any free one); rank 0's store can still listen on it.

    The first bind is strict, so a second launcher fails on it. SO_REUSEADDR, set afterwards on a socket
    that never listens, then lets torch's TCPStore (which sets it too) bind and listen on the same port,
    while every other strict bind and the kernel's own choice avoid it. Linux only: elsewhere the caller
    releases the port just before the workers start.
    """
    try:
        held = _bind(port, reuse=False)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        held = _bind_over_time_wait(port)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    claim = _claim(held.getsockname()[1])
    if claim is None:
        held.close()
        raise PortTakenError(find_holder(port))
    return Reservation(held, claim)


def release_early() -> bool:
    """Whether a held port keeps rank 0 from listening on this system."""
    return sys.platform != "linux"


def _bind_over_time_wait(port: int) -> socket.socket:
    """After a run its connections linger for a minute (TIME_WAIT): that is nobody's port.

    Such leftovers stand in /proc/net/tcp; a port that another launcher has reserved does not.
    """
    states = _connection_states(port)
    if not states or _LISTEN in states:
        raise PortTakenError(find_holder(port))
    try:
        return _bind(port, reuse=True)
    except OSError:
        raise PortTakenError(find_holder(port)) from None


def _claim(port: int) -> socket.socket | None:
    """A name that only one launcher can have: binding over TIME_WAIT is not strict, and lets two in.

    Abstract names (Linux) live in the network namespace, like ports, and vanish with their owner.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    if sys.platform != "linux":
        return claim
    try:
        claim.bind(f"\0ddplaunch-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def _bind(port: int, *, reuse: bool) -> socket.socket:
    """One socket for IPv4 and IPv6, as torch's store has; IPv4 alone where there is no IPv6."""
    try:
        held = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return _bind_address(socket.socket(socket.AF_INET, socket.SOCK_STREAM), "0.0.0.0", port, reuse)
    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    try:
        return _bind_address(held, "::", port, reuse)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:  # IPv6 compiled in, but switched off
            raise
    return _bind_address(socket.socket(socket.AF_INET, socket.SOCK_STREAM), "0.0.0.0", port, reuse)


def _bind_address(held: socket.socket, address: str, port: int, reuse: bool) -> socket.socket:
    try:
        if reuse:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, port))
    except OSError:
        held.close()
        raise
    return held


def _connection_states(port: int) -> set[str]:
    states: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        states.update(row[3] for row in rows if row[1].endswith(f":{port:04X}"))
    return states


def find_holder(port: int) -> str:
    """`pid 4121 (python train.py) listens on it`, or what can be said without the right to look."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):  # macOS without root
        connections = []
    holders = [c for c in connections if c.laddr and c.laddr.port == port and c.pid]
    if not holders:
        if _LISTEN in _connection_states(port):
            return "a process of another user listens on it"
        return (
            _find_reserving_run(port)
            or "a process that cannot be seen has reserved it: another launcher that waits, or another user's"
        )
    holder = min(holders, key=lambda c: c.status != psutil.CONN_LISTEN)
    verb = "listens on it" if holder.status == psutil.CONN_LISTEN else "uses it"
    return f"pid {holder.pid} ({_command(holder.pid)}) {verb}"


def _find_reserving_run(port: int) -> str:
    """A port that is bound but not listened on is in no table; the workers of a run know theirs."""
    import psutil

    for process in psutil.process_iter(["environ", "ppid"]):
        environ = process.info["environ"] or {}
        if environ.get("MASTER_PORT") == str(port) and "DDPLAUNCH_RUN_ID" in environ:
            launcher = process.info["ppid"]
            return f"pid {launcher} ({_command(launcher)}) has reserved it for its workers"
    return ""


def _command(pid: int) -> str:
    import psutil

    from ddplaunch.words import shorten_command

    try:
        words = psutil.Process(pid).cmdline() or [psutil.Process(pid).name()]
    except psutil.Error:
        return "gone by now"
    return shorten_command(" ".join(words))
