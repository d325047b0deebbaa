"""How long until the last worker's first line, against a bash loop, side by side in one run.

    python scripts/bench/launch.py [--torchrun]

Runs are interleaved; the minimum of each is compared, as a ratio. The launcher's peak memory is read
from its own resource usage.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

WORKER = 'import os\nprint("first line of", os.environ["RANK"], flush=True)\n'
PROMISED = {8: 1.7, 64: 1.25}
PROMISED_RSS_MB = 20
DDPLAUNCH = os.path.join(os.path.dirname(sys.executable), "ddplaunch")


def measure(command: list[str], workers: int) -> float:
    """Seconds from exec to the last worker's first line."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    for _ in range(workers):
        if not process.stdout.readline():
            raise SystemExit(f"{command[0]} ended before its {workers} workers had spoken")
    seconds = time.perf_counter() - begin
    process.stdout.read()
    process.wait()
    return seconds


def peak_rss_mb(command: list[str]) -> float:
    """Of the launcher alone: its children have a usage of their own."""
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)],
    )
    peak = 0
    while True:  # VmHWM is gone with the process: read it while it lives
        try:
            with open(f"/proc/{pid}/status") as status:
                peak = max([peak, *(int(line.split()[1]) for line in status if line.startswith("VmHWM"))])
        except FileNotFoundError:
            pass
        done, _ = os.waitpid(pid, os.WNOHANG)
        if done:
            return peak / 1024
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchrun", action="store_true", help="measure torchrun too (slow)")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, "w.py")
        with open(script, "w") as file:
            file.write(WORKER)
        for workers, promised in PROMISED.items():
            loop = f"for i in $(seq 0 {workers - 1}); do RANK=$i {sys.executable} {script} & done; wait"
            commands = {
                "bash loop": ["bash", "-c", loop],
                "ddplaunch": [DDPLAUNCH, "--nproc-per-node", str(workers), script],
            }
            if options.torchrun:
                torchrun = os.path.join(os.path.dirname(sys.executable), "torchrun")
                commands["torchrun"] = [torchrun, "--nproc-per-node", str(workers), script]
            best = dict.fromkeys(commands, float("inf"))
            for round_number in range(options.rounds):
                for name, command in commands.items():
                    if name == "torchrun" and round_number > 1:
                        continue
                    best[name] = min(best[name], measure(command, workers))
            print(f"{workers} workers, exec to the last first line:")
            for name, seconds in best.items():
                ratio = seconds / best["bash loop"]
                note = f"   (promised: at most {promised})" if name == "ddplaunch" else ""
                print(f"  {name:<10} {seconds * 1000:8.1f} ms   {ratio:5.2f}x{note}")
            results[f"launch_{workers}"] = best["ddplaunch"] / best["bash loop"]
        results["rss_mb"] = peak_rss_mb([DDPLAUNCH, "--nproc-per-node", "8", script])
        print(
            f"peak memory of the launcher: {results['rss_mb']:.1f} MB   (promised: at most {PROMISED_RSS_MB})"
        )
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
