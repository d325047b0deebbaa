"""Looking for a scheduler around this launcher; on a machine of one's own this costs a look at the names."""

import os
from collections.abc import Mapping

from ddplaunch.config.line import CommandLine
from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from ddplaunch.cluster.model import Allocation

# A variable of each detector's: without any of them, none is loaded.
MARKS = (
    "PET_NNODES", "SM_HOSTS", "AZUREML_EXPERIMENT_ID", "CLUSTER_SPEC", "SKYPILOT_NODE_RANK",
    "JOB_COMPLETION_INDEX", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_JOB_ID", "SLURM_STEP_ID",
    "MV2_COMM_WORLD_RANK", "PALS_RANKID", "PMI_RANK", "PMI_SIZE", "PBS_JOBID", "PBS_NODEFILE", "LSB_JOBID",
    "LSB_MCPU_HOSTS", "PE_HOSTFILE", "NODE_RANK", "MASTER_ADDR",
)  # fmt: skip

_NAMED_FILES = ("PBS_NODEFILE", "PE_HOSTFILE")


def locate(line: CommandLine, environ: Mapping[str, str]) -> "Allocation | None":
    """What the scheduler that started us says, if one did."""
    if not any(name in environ for name in MARKS):
        return None
    from ddplaunch.cluster.detect import detect
    from ddplaunch.cluster.model import Surroundings
    from ddplaunch.preflight.files import read_text

    paths = {name: environ[name] for name in _NAMED_FILES if environ.get(name)}
    files = {name: read_text(path) for name, path in {**paths, "/etc/hosts": "/etc/hosts"}.items()}
    return detect(Surroundings(environ, os.uname().nodename, files, line))
