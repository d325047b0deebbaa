"""--emit slurm: a script for sbatch. [pure]"""

import shlex

from ddplaunch.cluster.slurm import GRACE_SECONDS
from ddplaunch.emit.job import JobFile

KILL_WAIT_SECONDS = 30
LEAVE_SECONDS = 10  # beyond the grace: SIGKILL, and the last words


def render_sbatch(job: JobFile) -> str:
    grace = GRACE_SECONDS if job.grace_seconds is None else job.grace_seconds
    gpus = f"#SBATCH --gpus-per-node={job.gpus or 1}"
    if not job.is_gpu_sure:
        each = "" if job.gpus else ": ddplaunch starts one for each"
        gpus = f"# Cards of a node; take one # away where workers compute on GPUs{each}.\n#{gpus}"
    elif not job.gpus:
        gpus = f"# Change: the cards of a node. ddplaunch starts a worker for each.\n{gpus}"
    warning = ""
    if grace > GRACE_SECONDS:  # Slurm kills after KillWait, whatever we promise
        warning = f"""\
# Slurm kills {KILL_WAIT_SECONDS} s after scancel, whatever --grace says (KillWait, if your site has the
# usual one). At the time limit SIGTERM can come earlier:
#SBATCH --signal=TERM@{grace + LEAVE_SECONDS:g}
"""
    return f"""\
#!/bin/bash
# Made by: {job.made_by}
# Submit it with: sbatch {job.name}.sh

#SBATCH --job-name={job.name}
#SBATCH --nodes={job.nnodes}
# One ddplaunch per node: it starts the node's workers itself.
#SBATCH --ntasks-per-node=1
# Cores for all workers of a node together; DataLoader workers want some, too.
#SBATCH --cpus-per-task={job.cpus}
{gpus}
#SBATCH --output=%x-%j.out
# At the time limit, or after scancel, workers get SIGTERM and {grace:g} s to write a checkpoint.
{warning}##SBATCH --time=24:00:00
# Queue the job again when a node fails or it is preempted; DDPLAUNCH_ATTEMPT counts on.
##SBATCH --requeue --open-mode=append

# The environment this file was made in. Or: module load ..., conda activate ...
export PATH={shlex.quote(job.bin_directory)}:"$PATH"

# srun does not take --cpus-per-task over from sbatch. Nodes, ranks, address and port are read from Slurm.
srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \\
    {job.command(gpus=None, master_addr=job.master_addr, master_port=job.master_port)}
"""
