"""Two nodes on network stacks of their own: from the start to the first all_reduce, and the memory taken.

    python scripts/bench/nodes.py      (needs root: network namespaces)

ddplaunch and torchrun (static rendezvous) in turns, one gloo worker per node, minimum and median of each.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.hosts import Lab, why_not

ROUNDS = 5
PROMISED_RATIO, PROMISED_MEMORY = 0.7, 30 << 20
WORKER = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 0:
    open(sys.argv[1], "w").write(str(time.monotonic()))
while not os.path.exists(sys.argv[1] + ".seen"):
    time.sleep(0.01)
dist.barrier()
os._exit(0)
"""


def measure(lab: Lab, program: str, script: str) -> tuple[float, int]:
    """Seconds until the first all_reduce, and the most memory that a launcher ever had."""
    with tempfile.TemporaryDirectory() as directory:
        done = Path(directory, "done")
        began = time.monotonic()
        launchers = [
            subprocess.Popen(
                host.command(
                    program, "--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1",
                    "--master-addr", "n0", "--master-port", "29500", script, str(done),
                ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number, host in enumerate(lab.hosts)
        ]  # fmt: skip
        while not (done.exists() and done.read_text()):
            time.sleep(0.005)
            if all(launcher.poll() is not None for launcher in launchers):
                raise SystemExit(f"{program} does not run here")
        memory = max(peak_memory(launcher.pid) for launcher in launchers)
        Path(f"{done}.seen").touch()
        for launcher in launchers:
            launcher.wait()
        return float(done.read_text()) - began, memory


def peak_memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    if why_not():
        raise SystemExit(why_not())
    programs = os.path.dirname(sys.executable)
    names = ("ddplaunch", "torchrun")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, int] = dict.fromkeys(names, 0)
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory, "w.py")
        script.write_text(WORKER)
        lab = Lab(2, Path(directory))
        for _ in range(ROUNDS):
            for name in names:
                took, weight = measure(lab, os.path.join(programs, name), str(script))
                seconds[name].append(took)
                memory[name] = max(memory[name], weight)
        lab.close()
    for name in names:
        print(
            f"{name:<10} to the first all_reduce: {min(seconds[name]):.2f} s (median "
            f"{statistics.median(seconds[name]):.2f}), launcher {memory[name] / (1 << 20):.0f} MB"
        )
    middle = {name: statistics.median(seconds[name]) for name in names}
    ratios = (min(seconds["ddplaunch"]) / min(seconds["torchrun"]), middle["ddplaunch"] / middle["torchrun"])
    print(f"ratio {ratios[0]:.2f}x, of medians {ratios[1]:.2f}x (promised: at most {PROMISED_RATIO})")
    print(f"launcher's memory: promised at most {PROMISED_MEMORY >> 20} MB")


if __name__ == "__main__":
    main()
