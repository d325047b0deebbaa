"""Real schedulers: Slurm, OpenMPI and MPICH from Debian, on hosts of a lab."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import hosts, slurm
from tests.support.hosts import Lab
from tests.support.launcher import Run
from tests.support.slurm import Slurm, open_slurm
from tests.support.ssh import SshServers


class Site:
    """A cluster, and somebody at its first host who types commands."""

    def __init__(self, cluster: Slurm, environment: dict[str, str], directory: Path) -> None:
        self.slurm, self.directory = cluster, directory
        self._environment = {**environment, **cluster.env}
        self.runs: list[Run] = []

    def type(self, *command: str, env: dict[str, str] | None = None) -> Run:
        place = self.directory / f"typed_{len(self.runs)}"
        place.mkdir()
        command_there = self.slurm.command(*map(str, command), directory=self.directory)
        self.runs.append(Run(command_there, {**self._environment, **(env or {})}, place))
        return self.runs[-1]

    def srun(self, *words: str, nodes: int = 2, env: dict[str, str] | None = None) -> Run:
        """One task per node, as the README says."""
        return self.type("srun", f"--nodes={nodes}", "--ntasks-per-node=1", *words, env=env)

    def batch(self, text: str, *options: str, nodes: int = 2) -> "Job":
        """Submit a script with these lines."""
        script = self.directory / "job.sh"
        script.write_text(f"#!/bin/bash\n{text}\n")
        return self.submit(script, f"--nodes={nodes}", *options)

    def submit(self, script: Path, *options: str) -> "Job":
        output = self.directory / f"{script.stem}.out"
        words = ("sbatch", "--parsable", f"--output={output}", "--chdir", str(self.directory), *options)
        return Job(self, self.slurm.ask(*words, str(script), env=self._environment), output)


class Job:
    """A batch job, by its number."""

    def __init__(self, site: Site, number: str, output: Path) -> None:
        self._site, self.number, self._output = site, number, output

    @property
    def out(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def show(self, field: str) -> str:
        told = self._site.slurm.ask("scontrol", "show", "job", self.number)
        return next(word.partition("=")[2] for word in told.split() if word.startswith(f"{field}="))

    @property
    def is_over(self) -> bool:
        return self.show("JobState") not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")

    @property
    def exit_code(self) -> int:
        """`3:0` is code and signal."""
        return int(self.show("ExitCode").partition(":")[0])


def _open(tracking: str, factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if slurm.why_not(tracking):
        pytest.skip(slurm.why_not(tracking))
    with open_slurm(factory.mktemp("slurm"), tracking) as opened:
        yield opened


@pytest.fixture(scope="session")
def _cgroup_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    yield from _open("proctrack/cgroup", tmp_path_factory)


@pytest.fixture(scope="session")
def _linuxproc_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    yield from _open("proctrack/linuxproc", tmp_path_factory)


@pytest.fixture
def site(_cgroup_slurm: Slurm, environment: dict[str, str], tmp_path: Path) -> Iterator[Site]:
    """SIGTERM goes to the launcher alone."""
    yield from _stay(Site(_cgroup_slurm, environment, tmp_path))


@pytest.fixture(params=["_cgroup_slurm", "_linuxproc_slurm"])
def any_site(request: pytest.FixtureRequest, environment: dict[str, str], tmp_path: Path) -> Iterator[Site]:
    """Sites differ: SIGTERM goes to the launcher alone, or to everything it has started as well."""
    yield from _stay(Site(request.getfixturevalue(request.param), environment, tmp_path))


def _stay(site: Site) -> Iterator[Site]:
    yield site
    for run in site.runs:
        run.end()


MPI_TOOLS = ("mpirun.openmpi", "mpiexec.hydra", "ssh", "ssh-keygen", "/usr/sbin/sshd")


class Network:
    """Hosts that reach each other by ssh."""

    def __init__(self, lab: Lab, servers: SshServers) -> None:
        self.lab, self.servers = lab, servers


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    missing = [tool for tool in MPI_TOOLS if shutil.which(tool) is None]
    reason = hosts.why_not() or (f"MPI over ssh needs {', '.join(missing)}" if missing else "")
    if reason:
        pytest.skip(reason)
    lab = Lab(2, tmp_path_factory.mktemp("lab"))
    servers = SshServers(lab, tmp_path_factory.mktemp("ssh"))
    yield Network(lab, servers)
    servers.close()
    lab.close()


@pytest.fixture
def on_first_host(
    network: Network, environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., Run]]:
    """Type a command on the first host."""
    runs: list[Run] = []

    def start(*command: str, env: dict[str, str] | None = None) -> Run:
        place = tmp_path / f"typed_{len(runs)}"
        place.mkdir()
        there = network.lab.hosts[0].command(*map(str, command), directory=tmp_path)
        runs.append(Run(there, {**environment, **network.servers.env(), **(env or {})}, place))
        return runs[-1]

    yield start
    for run in runs:
        run.end()
