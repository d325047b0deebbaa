"""Hosts of a small network on this machine: each has its own network, name and hosts file.

They hang on a switch that lives in a network namespace of its own: the machine's network is not touched.
A host lasts as long as somebody holds the other end of its stdin; nothing of it can be left behind.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

NETWORK = "192.168.0"
LISTENS, CONNECTED = "0A", "01"  # /proc/net/tcp, "st" column
TOOLS = ("unshare", "nsenter", "ip", "mount", "ethtool")

# A packet with these on has no checksum, and may be many in one, until it leaves the machine.
OFFLOADS = ("tx", "off", "tso", "off", "gso", "off", "gro", "off")


def why_not() -> str:
    """What keeps this machine from having hosts; empty when nothing does."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return "network namespaces need root on Linux"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"network namespaces need {', '.join(missing)}" if missing else ""


class Host:
    """A process that holds the namespaces."""

    def __init__(self, name: str, hosts_file: Path) -> None:
        self.name = name
        setup = (
            f"hostname {name} && mount --bind '{hosts_file}' /etc/hosts && mount --bind '{hosts_file}.order' "
            "/etc/nsswitch.conf && ip link set lo up && echo ready && exec cat"
        )
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--propagation", "private", "sh", "-c", setup],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"ready\n"

    def command(self, *command: str, net_only: bool = False, directory: Path | None = None) -> list[str]:
        """The command, on this host. It becomes this very process: its pid is the command's."""
        rooms = ["-n"] if net_only else ["-n", "-u", "-m"]
        return ["nsenter", "-t", str(self.pid), *rooms, f"--wd={directory or Path.cwd()}", "--", *command]

    def run(self, *command: str) -> None:
        subprocess.run(self.command(*command, net_only=True), check=True)

    @contextmanager
    def names_from(self, hosts_file: Path) -> Iterator[None]:
        """Look names up in another file for a while."""
        enter = ["nsenter", "-t", str(self.pid), "-m", "--"]
        subprocess.run([*enter, "mount", "--bind", hosts_file, "/etc/hosts"], check=True)
        try:
            yield
        finally:
            subprocess.run([*enter, "umount", "/etc/hosts"], check=True)

    @property
    def pid(self) -> int:
        return self._holder.pid

    def close(self) -> None:
        self._holder.communicate()


class Lab:
    """A switch and hosts n0, n1, ... with the addresses 192.168.0.1, .2, ..."""

    def __init__(self, count: int, directory: Path) -> None:
        names = [f"n{number}" for number in range(count)]
        lines = ["127.0.0.1 localhost", *(f"{self.address(i)} {name}" for i, name in enumerate(names))]
        hosts_file = directory / "hosts"
        hosts_file.write_text("\n".join(lines) + "\n")
        (directory / "hosts.order").write_text("hosts: files\n")
        self.switch = Host("switch", hosts_file)
        self.switch.run("ip", "link", "add", "bridge", "type", "bridge")
        self.switch.run("ip", "link", "set", "bridge", "up")
        self.hosts = [Host(name, hosts_file) for name in names]
        for number, host in enumerate(self.hosts):
            self._plug(host, self.address(number))

    @staticmethod
    def address(number: int) -> str:
        return f"{NETWORK}.{number + 1}"

    def listens(self, number: int, port: int) -> bool:
        """Whether somebody on that host listens on a port."""
        return any(state == LISTENS for _, state in self._connections(number, port))

    def is_connected(self, number: int, port: int, peer: int) -> bool:
        """Whether somebody on that host has a connection on a port with the host `peer`."""
        address = bytes(reversed([int(part) for part in self.address(peer).split(".")])).hex().upper()
        found = self._connections(number, port)
        return any(remote.endswith(address) and state == CONNECTED for remote, state in found)

    def _connections(self, number: int, port: int) -> Iterator[tuple[str, str]]:
        """(the other end's address, state) of everything on a port, as the kernel writes it."""
        for table in ("tcp", "tcp6"):
            rows = Path(f"/proc/{self.hosts[number].pid}/net/{table}").read_text().splitlines()[1:]
            for _, local, remote, state, *_ in map(str.split, rows):
                if local.endswith(f":{port:04X}"):
                    yield remote.partition(":")[0], state

    def cut(self, number: int) -> None:
        """The cable is out: the others hear nothing any more, not even that."""
        self.switch.run("ip", "link", "set", f"n{number}", "down")

    def heal(self, number: int) -> None:
        self.switch.run("ip", "link", "set", f"n{number}", "up")

    @contextmanager
    def bad_line(self, number: int, delay_ms: int, loss_percent: int) -> Iterator[None]:
        """A relay between host and switch holds every packet up, and drops some."""
        name, ends = f"n{number}", ("relay-in", "relay-out")
        self.switch.run("ip", "link", "set", name, "nomaster")
        self.switch.run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        self.switch.run("ip", "link", "set", ends[0], "up")
        self.switch.run("ip", "link", "set", ends[1], "master", "bridge", "up")
        for host in self.hosts:
            host.run("ethtool", "-K", "eth0", *OFFLOADS)
        script = str(Path(__file__).parent / "relay.py")
        arguments = (name, ends[0], str(delay_ms), str(loss_percent))
        command = self.switch.command(sys.executable, script, *arguments, net_only=True)
        relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert relay.stdout is not None
            assert relay.stdout.readline() == b"ready\n"
            yield
        finally:
            relay.communicate()
            self.switch.run("ip", "link", "del", ends[0])
            self.switch.run("ip", "link", "set", name, "master", "bridge")

    def close(self) -> None:
        for host in (*self.hosts, self.switch):
            host.close()

    def _plug(self, host: Host, address: str) -> None:
        peer = ("peer", "name", "eth0", "netns", str(host.pid))
        self.switch.run("ip", "link", "add", host.name, "type", "veth", *peer)
        self.switch.run("ip", "link", "set", host.name, "master", "bridge", "up")
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")


def node_options(number: int, count: int) -> Sequence[str]:
    return ("--nnodes", str(count), "--node-rank", str(number), "--master-addr", "n0")
