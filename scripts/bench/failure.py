"""How long from a worker's crash until the others are gone, and until the launcher has left with its report.

    python scripts/bench/failure.py

Eight workers, one of which exits with 1 when all are there; ddplaunch and torchrun in turns, minimum of each.
"""

import os
import select
import subprocess
import sys
import tempfile
import time

WORKERS = 8
WORKER = """
import os, signal, sys, time
directory, rank = sys.argv[1], os.environ["RANK"]
open(os.path.join(directory, "up." + rank), "w").write(str(os.getpid()))
if rank == "3":
    while not os.path.exists(os.path.join(directory, "go")): time.sleep(0.001)
    open(os.path.join(directory, "crashed"), "w").write(str(time.monotonic()))
    os._exit(1)
signal.pause()
"""
PROMISED = {"others gone": 0.3, "launcher left": 0.4}


def measure(command: list[str], script: str) -> dict[str, float]:
    """Seconds after the crash, by what happened."""
    with tempfile.TemporaryDirectory() as directory:
        process = subprocess.Popen(
            [*command, "--nproc-per-node", str(WORKERS), script, directory],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        pids = [read_number(os.path.join(directory, f"up.{rank}")) for rank in range(WORKERS)]
        watched = {os.pidfd_open(int(pid)) for pid in pids}
        with open(os.path.join(directory, "go"), "w"):
            pass
        for pidfd in tuple(watched):
            select.select([pidfd], [], [])
            os.close(pidfd)
        others_gone = time.monotonic()
        process.wait()
        launcher_left = time.monotonic()
        crashed = read_number(os.path.join(directory, "crashed"))
    return {"others gone": others_gone - crashed, "launcher left": launcher_left - crashed}


def read_number(path: str) -> float:
    """What a worker wrote there, as soon as it has."""
    while True:
        try:
            with open(path) as file:
                text = file.read()
        except FileNotFoundError:
            text = ""
        if text:
            return float(text)
        time.sleep(0.002)


def main() -> None:
    programs = os.path.dirname(sys.executable)
    commands = {name: [os.path.join(programs, name)] for name in ("ddplaunch", "torchrun")}
    best: dict[str, dict[str, float]] = {name: {} for name in commands}
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "w.py")
        with open(script, "w") as file:
            file.write(WORKER)
        for _ in range(5):
            for name, command in commands.items():
                for what, seconds in measure(command, script).items():
                    best[name][what] = min(best[name].get(what, seconds), seconds)
    print(f"{WORKERS} workers, one crashes:")
    for what, promised in PROMISED.items():
        ours, theirs = best["ddplaunch"][what], best["torchrun"][what]
        print(
            f"  {what:<14} ddplaunch {ours * 1000:6.1f} ms   torchrun {theirs * 1000:6.1f} ms   "
            f"{ours / theirs:.2f}x   (promised: at most {promised})"
        )


if __name__ == "__main__":
    main()
