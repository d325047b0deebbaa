"""The README's lines for clusters, typed as they stand on real ones."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cluster.conftest import Network, Site
from tests.process.test_readme import plain_commands
from tests.support.launcher import Run

PATH = os.path.dirname(sys.executable) + os.pathsep


def line_of(program: str) -> str:
    (line,) = [line for line in plain_commands() if line.startswith(f"{program} ")]
    return line


def write_script(directory: Path) -> None:
    (directory / "train.py").write_text("import os\nprint('worker', os.environ['RANK'])\n")


def check(run: Run) -> None:
    assert run.wait() == 0, run.err
    assert sorted(run.out.splitlines()) == [f"[{rank}] worker {rank}" for rank in range(4)]


def test_srun(site: Site) -> None:
    write_script(site.directory)
    check(site.type("bash", "-c", line_of("srun"), env={"PATH": PATH + os.environ["PATH"]}))


def test_mpirun(on_first_host: Callable[..., Run], network: Network, tmp_path: Path) -> None:
    write_script(tmp_path)
    (tmp_path / "hosts").write_text("n0 slots=1\nn1 slots=1\n")
    env = {
        "PATH": PATH + network.servers.env()["PATH"],
        "OMPI_MCA_orte_default_hostfile": str(tmp_path / "hosts"),
        "OMPI_MCA_plm_rsh_agent": str(network.servers.ssh),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    command = line_of("mpirun").replace("mpirun", "mpirun.openmpi", 1)  # MPICH may have taken the plain name
    check(on_first_host("bash", "-c", command, env=env))
