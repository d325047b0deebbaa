"""Real OpenSSH servers on the hosts of a lab, and the client's side of it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.hosts import Lab
from tests.support.processes import wait_until

SERVER = """\
HostKey {directory}/host
AuthorizedKeysFile {directory}/user.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
StrictModes no
AcceptEnv *
SetEnv PATH={path}
"""

CLIENT = """\
Host *
  User root
  IdentityFile {directory}/user
  StrictHostKeyChecking accept-new
  UserKnownHostsFile {directory}/known
  LogLevel ERROR
  BatchMode yes
  SendEnv DDP_TEST_*
"""


class SshServers:
    def __init__(self, lab: Lab, directory: Path) -> None:
        self._servers: list[subprocess.Popen[bytes]] = []
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)]
            subprocess.run(command, check=True)
        path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # the same on every host
        (directory / "server").write_text(SERVER.format(directory=directory, path=path))
        (directory / "client").write_text(CLIENT.format(directory=directory))
        self.bin = directory / "bin"  # first in PATH, its ssh knows our keys
        self.bin.mkdir()
        self.ssh = self.bin / "ssh"
        self.ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {directory}/client "$@"\n')
        self.ssh.chmod(0o755)
        for number, host in enumerate(lab.hosts):
            prepare = "mount -t tmpfs t /run && mkdir -m 755 /run/sshd"
            script = f"{prepare} && exec /usr/sbin/sshd -D -f {directory}/server"
            self._servers.append(subprocess.Popen(host.command("sh", "-c", script)))
            wait_until(lambda number=number: lab.listens(number, 22), f"sshd listens on {host.name}")  # type: ignore[misc]

    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    def close(self) -> None:
        for server in self._servers:
            server.terminate()
            server.wait()
