"""--emit: the job file that does on a cluster what the command line says. [pure]"""

from ddplaunch.emit.job import JobFile
from ddplaunch.emit.kubernetes import render_kubernetes
from ddplaunch.emit.pbs import render_pbs
from ddplaunch.emit.slurm import render_sbatch
from ddplaunch.emit.ssh import render_ssh

RENDERERS = {
    "slurm": render_sbatch,
    "kubernetes": render_kubernetes,
    "pbs": render_pbs,
    "ssh": render_ssh,
}


def render_job(kind: str, job: JobFile) -> str:
    return RENDERERS[kind](job)
