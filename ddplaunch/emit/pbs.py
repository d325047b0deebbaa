"""--emit pbs: a script for qsub. [pure]"""

import shlex

from ddplaunch.emit.job import JobFile


def render_pbs(job: JobFile) -> str:
    gpus = f":ngpus={job.gpus or 1}" if job.is_gpu_sure else ""
    without = "" if gpus else f"# Where workers compute on GPUs, add :ngpus={job.gpus or 1}.\n"
    master = shlex.quote(job.master_addr) if job.master_addr else '$(head -n 1 "$PBS_NODEFILE")'
    port = job.master_port or "$((10000 + $(printf %s \"$PBS_JOBID\" | cksum | cut -d' ' -f1) % 20000))"
    command = job.command(gpus=None).removeprefix("ddplaunch").lstrip()
    return f"""\
#!/bin/bash
# Made by: {job.made_by}
# Submit it with: qsub {job.name}.sh

#PBS -N {job.name[:15]}
# mpiprocs=1: one ddplaunch per node, which starts the node's workers itself.
{without}#PBS -l select={job.nnodes}:ncpus={job.cpus}{gpus}:mpiprocs=1
#PBS -l place=scatter
#PBS -j oe
##PBS -l walltime=24:00:00

cd "$PBS_O_WORKDIR" || exit 1
# The environment this file was made in. Or: module load ..., conda activate ...
export PATH={shlex.quote(job.bin_directory)}:"$PATH"

# Where the nodes meet: the first host, on a port that follows from the job's number.
master={master}
port={port}

# Any MPI's mpiexec will do: it only starts ddplaunch once per host, and says which one is which.
# OpenMPI would bind it to one core, and all its workers with it.
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
mpiexec -n {job.nnodes} "$(command -v ddplaunch)" --master-addr "$master" --master-port "$port" \\
    {command}
"""
