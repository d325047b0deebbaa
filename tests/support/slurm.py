"""A real Slurm on the hosts of a lab: a controller on the first, a daemon on each, one munged for all.

Daemons run in the foreground, as children of ours: they are ended by pid, and nothing else is.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support import hosts
from tests.support.hosts import Lab
from tests.support.processes import wait_until

TOOLS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "sinfo")
CARDS = 4
END_SECONDS = 20

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPidFile={directory}/controller.pid
SlurmdPidFile={directory}/slurmd-%n.pid
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
ProctrackType={tracking}
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
KillWait=30
SlurmdTimeout=60
JobRequeue=1
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n[0-{last}] CPUs=8 RealMemory=8000 Gres=gpu:{cards} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not(tracking: str) -> str:
    """What keeps this machine from having a Slurm; empty when nothing does."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if hosts.why_not() or missing:
        return hosts.why_not() or f"Slurm needs {', '.join(missing)}"
    has_freezer = os.path.isdir("/sys/fs/cgroup/freezer")
    return "" if has_freezer or not tracking.endswith("cgroup") else "no cgroup v1 for proctrack/cgroup"


class Slurm:
    """Up and idle when constructed."""

    def __init__(self, lab: Lab, directory: Path, tracking: str) -> None:
        self._lab, self._directory, self._daemons = lab, directory, list[subprocess.Popen[bytes]]()
        self._configure(tracking)
        self.env = {"SLURM_CONF": str(directory / "slurm.conf")}
        socket, key = directory / "munge.socket", directory / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        files = [f"--{name}-file={directory}/munge.{name}" for name in ("pid", "log", "seed")]
        command = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket}", *files]
        self._start("munged", command)
        wait_until(socket.exists, "munged listens")
        self._start("slurmctld", lab.hosts[0].command("slurmctld", "-D"))
        for host in lab.hosts:
            (directory / f"spool-{host.name}").mkdir()
            self._start(host.name, host.command("slurmd", "-D", "-N", host.name))
        wait_until(self._is_idle, "all nodes of Slurm are idle")

    def command(self, *words: str, directory: Path | None = None) -> list[str]:
        """A command of Slurm's, typed on the first host."""
        return self._lab.hosts[0].command(*words, directory=directory)

    def ask(self, *words: str, env: dict[str, str] | None = None, check: bool = True) -> str:
        """What a short command prints."""
        given = {**(env or os.environ), **self.env}
        done = subprocess.run(self.command(*words), env=given, capture_output=True, text=True, check=check)
        return done.stdout.strip()

    def close(self) -> None:
        self.ask("scancel", "--full", "--signal=KILL", "--user=root", check=False)
        with suppress(AssertionError):
            wait_until(lambda: not self.ask("squeue", "--noheader", check=False), "no job is left")
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        _remove_cgroups([host.name for host in self._lab.hosts])

    def _configure(self, tracking: str) -> None:
        directory, count = self._directory, len(self._lab.hosts)
        settings = {"controller": "n0", "directory": directory, "tracking": tracking, "last": count - 1}
        (directory / "slurm.conf").write_text(CONFIGURATION.format(**settings, cards=CARDS))
        (directory / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
        )
        (directory / "gres.conf").write_text(f"Name=gpu File={directory}/nvidia[0-{CARDS - 1}]\n")
        (directory / "state").mkdir()
        for card in range(CARDS):  # what is never opened may as well be /dev/null
            os.mknod(directory / f"nvidia{card}", 0o20666, os.makedev(1, 3))

    def _start(self, name: str, command: Sequence[str]) -> None:
        env = {**os.environ, "SLURM_CONF": str(self._directory / "slurm.conf")}
        with (self._directory / f"{name}.log").open("wb") as log:
            self._daemons.append(
                subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def _is_idle(self) -> bool:
        count = str(len(self._lab.hosts))
        return self.ask("sinfo", "--noheader", "--states=idle", "--format=%D", check=False) == count


@contextmanager
def open_slurm(directory: Path, tracking: str) -> Iterator[Slurm]:
    """A lab of three hosts with a Slurm on it."""
    (directory / "lab").mkdir()
    lab = Lab(3, directory / "lab")
    (directory / "slurm").mkdir()
    try:
        slurm = Slurm(lab, directory / "slurm", tracking)
        try:
            yield slurm
        finally:
            slurm.close()
    finally:
        lab.close()


def _remove_cgroups(names: Sequence[str]) -> None:
    for name in names:
        for top in Path("/sys/fs/cgroup").glob(f"*/slurm_{name}"):
            for directory in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                with suppress(OSError):
                    directory.rmdir()
            with suppress(OSError):
                top.rmdir()
