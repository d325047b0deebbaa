"""One launcher per host, started by real mpiruns and by ssh."""

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.conftest import Network
from tests.cluster.test_slurm import places
from tests.support.launcher import DDPLAUNCH, Run, worker

Type = Callable[..., Run]

OPENMPI = ("mpirun.openmpi", "--allow-run-as-root", "--map-by", "node", "-x", "DDP_TEST_MARK")
HYDRA = ("mpiexec.hydra", "-launcher", "ssh")


def host_file(directory: Path, slots: str) -> str:
    path = directory / "hosts"
    path.write_text("".join(f"{name}{slots}\n" for name in ("n0", "n1")))
    return str(path)


@pytest.fixture
def openmpi(network: Network, tmp_path: Path) -> tuple[str, ...]:
    agent = ("--mca", "plm_rsh_agent", str(network.servers.ssh))
    return (*OPENMPI, *agent, "--hostfile", host_file(tmp_path, " slots=2"))


@pytest.fixture
def hydra(network: Network, tmp_path: Path) -> tuple[str, ...]:
    return (*HYDRA, "-launcher-exec", str(network.servers.ssh), "-f", host_file(tmp_path, ":2"))


def check_two_nodes(run: Run) -> None:
    assert run.wait() == 0, run.err
    found = places(run.out)
    assert [(place["NODE_RANK"], place["host"]) for place in found] == [
        ("0", "n0"), ("0", "n0"), ("1", "n1"), ("1", "n1"),
    ], run.err  # fmt: skip


def test_openmpi_starts_two_nodes(on_first_host: Type, openmpi: tuple[str, ...]) -> None:
    options = ("--nproc-per-node", "2", "--master-addr", "n0")
    check_two_nodes(on_first_host(*openmpi, "-np", "2", *DDPLAUNCH, *options, worker("place")))


def test_hydra_starts_two_nodes(on_first_host: Type, hydra: tuple[str, ...]) -> None:
    options = ("--nproc-per-node", "2", "--master-addr", "n0")
    check_two_nodes(on_first_host(*hydra, "-ppn", "1", "-n", "2", *DDPLAUNCH, *options, worker("place")))


def test_without_a_master_address_the_error_says_so(on_first_host: Type, openmpi: tuple[str, ...]) -> None:
    run = on_first_host(*openmpi, "-np", "2", *DDPLAUNCH, worker("place"))
    assert run.wait() == 3
    assert "no master address" in run.err
    assert "--master-addr" in run.err


@pytest.mark.parametrize("kind", ["openmpi", "hydra"])
def test_a_launcher_per_card_is_corrected(
    on_first_host: Type, request: pytest.FixtureRequest, kind: str
) -> None:
    mpirun: tuple[str, ...] = request.getfixturevalue(kind)
    count = ("-np", "4") if kind == "openmpi" else ("-n", "4")
    options = ("--master-addr", "n0")
    run = on_first_host(*mpirun, *count, *DDPLAUNCH, *options, worker("place"))
    assert run.wait() == 3
    assert "2 ddplaunch were started on this node; one starts all its workers" in run.err
    hint = re.search(r"hint:  (?:mpirun|mpiexec) (.*) ddplaunch (.*)", run.err)
    assert hint is not None, run.err
    check_two_nodes(on_first_host(*mpirun, *hint[1].split(), *DDPLAUNCH, *hint[2].split()))


@pytest.mark.parametrize("kind", ["openmpi", "hydra"])
def test_processes_of_mpirun_find_out_which_nodes_they_are_on(
    on_first_host: Type, request: pytest.FixtureRequest, kind: str
) -> None:
    """Without any launcher of ours: on each node, one goes first."""
    mpirun: tuple[str, ...] = request.getfixturevalue(kind)
    master = (
        ("-np", "4", "-x", "MASTER_ADDR=n0")
        if kind == "openmpi"
        else ("-n", "4", "-genv", "MASTER_ADDR", "n0")
    )
    run = on_first_host(*mpirun, *master, sys.executable, worker("group"), "nodes")
    assert run.wait() == 0, run.err
    found = re.findall(r"rank=(\d) node=(\d) host=(\w+) at=([\d.]+)", run.out)
    assert sorted((node, host) for _, node, host, _ in found) == [("0", "n0")] * 2 + [("1", "n1")] * 2
    for each in "01":
        first, second = sorted(float(at) for _, node, _, at in found if node == each)
        assert second - first >= 0.3


def test_a_failing_rank_ends_an_mpirun(on_first_host: Type, openmpi: tuple[str, ...]) -> None:
    options = ("--nproc-per-node", "2", "--master-addr", "n0")
    meeting = ("-x", "DDP_TEST_DIRECTORY")
    run = on_first_host(*openmpi, *meeting, "-np", "2", *DDPLAUNCH, *options, worker("fail"), "3", "exit7")
    assert run.wait() == 7
    assert "first failure: rank 3, exit code 7" in run.err


def emit(on_first_host: Type, directory: Path, kind: str, *arguments: str) -> str:
    options = ("--emit", kind, "--nnodes", "2", "--nproc-per-node", "2")
    run = on_first_host(*DDPLAUNCH, *options, *arguments)
    assert run.wait() == 0, run.err
    script = directory / f"{kind}.sh"
    script.write_text(run.out)
    return str(script)


def test_the_emitted_ssh_lines_start_all_nodes(on_first_host: Type, tmp_path: Path) -> None:
    script = emit(on_first_host, tmp_path, "ssh", worker("place"), "it's", "$HOME")
    check_two_nodes(on_first_host("bash", script, "n0", "n1"))
    assert on_first_host("bash", script, "n0").wait() == 2


def test_the_emitted_ssh_lines_end_all_nodes(on_first_host: Type, tmp_path: Path) -> None:
    run = on_first_host("bash", emit(on_first_host, tmp_path, "ssh", worker("on_signal"), "0"), "n0", "n1")
    run.wait_ready(4)
    run.send(signal.SIGTERM)
    run.wait()  # and nothing is left on any host: the test's mark would be found


def test_the_emitted_pbs_script_starts_all_nodes(
    on_first_host: Type, hydra: tuple[str, ...], network: Network, tmp_path: Path
) -> None:
    """No PBS can be had here: what it sets is set by hand, and MPICH's mpiexec is the real one."""
    (tmp_path / "nodes").write_text("n0\nn1\n")
    mpiexec = network.servers.bin / "mpiexec"
    mpiexec.write_text(f'#!/bin/sh\nexec {" ".join(hydra)} -ppn 1 "$@"\n')
    mpiexec.chmod(0o755)
    script = emit(on_first_host, tmp_path, "pbs", worker("place"), "it's", "$HOME")
    env = {"PBS_JOBID": "17.head", "PBS_NODEFILE": str(tmp_path / "nodes"), "PBS_O_WORKDIR": str(tmp_path)}
    check_two_nodes(on_first_host("bash", script, env=env))
    assert sys.executable.rpartition("/")[0] in Path(script).read_text()
