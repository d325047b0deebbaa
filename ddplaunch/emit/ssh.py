"""--emit ssh: one line per host. [pure]"""

import shlex

from ddplaunch.config.settings import DEFAULT_MASTER_PORT
from ddplaunch.emit.job import JobFile

# Filled in by the shell here.
_MASTER, _PLAIN = "THE-ADDRESS-OF-NODE-0", "WHAT-THE-TERMINAL-IS"


def render_ssh(job: JobFile) -> str:
    hosts = " ".join(f"HOST{number}" for number in range(job.nnodes))
    lines = "\n".join(f"{_render_line(job, number)} &\npids+=($!)" for number in range(job.nnodes))
    return f"""\
#!/bin/bash
# Made by: {job.made_by}
# Start it with: bash {job.name}.sh {hosts}
# The project and its environment have to be at the same place on every host.
if [ $# -ne {job.nnodes} ]; then
    echo "usage: bash $0 {hosts}" >&2
    exit 2
fi

# -tt: when this script ends, the launchers on all hosts hear of it, and end their workers.
# They see a terminal then, whether we have one or not.
plain=
[ -t 1 ] || plain='NO_COLOR=1 TERM=dumb'
pids=()
{lines}

trap 'kill "${{pids[@]}}"' INT TERM HUP
code=0
for pid in "${{pids[@]}}"; do
    while kill -0 "$pid" 2>/dev/null; do wait "$pid"; done
    wait "$pid"
    status=$?
    [ "$code" -ne 0 ] || code=$status
done
exit "$code"
"""


def _render_line(job: JobFile, number: int) -> str:
    """Quoted once for the shell there, and once for the shell here."""
    command = job.command(
        nnodes=job.nnodes,
        node_rank=number,
        master_addr=job.master_addr or _MASTER,
        master_port=job.master_port or DEFAULT_MASTER_PORT,
    )
    path = f'PATH={shlex.quote(job.bin_directory)}:"$PATH"'
    there = f"cd {shlex.quote(job.directory)} && {_PLAIN} {path} exec {command}"
    here = shlex.quote(there).replace(_MASTER, "'\"${1#*@}\"'")
    here = here.replace(_PLAIN, "'\"$plain\"'")
    return f'ssh -tt "${{{number + 1}}}" {here} </dev/null'
