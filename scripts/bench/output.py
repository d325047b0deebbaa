"""How fast workers' lines reach a reader, side by side in one run.

    python scripts/bench/output.py

Four workers write 64 MB each in lines of 100 bytes, to a pipe that this program reads; `cat` of the same
bytes is the measure. Then: how late a line comes, and how much memory a line of 1 GB costs.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

WORKERS, MEGABYTES = 4, 64
BLAST = """
import os, sys
lines = b"".join(b"%06d " % (n % 1000000) + b"x" * 92 + b"\\n" for n in range(655))
left = int(sys.argv[1]) << 20
while left > 0:
    left -= os.write(1, lines[:left])
"""
CLOCK = """
import sys, time
for n in range(400):
    print(time.monotonic(), "x" * 60)
    time.sleep(0.005)
"""
LONG = "import os\nfor _ in range(16384): os.write(1, b'x' * 65536)\n"
PROGRAMS = os.path.dirname(sys.executable)


def measure(command: Sequence[str]) -> float:
    """Megabytes of the workers per second, from the first byte to the last."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    fd = process.stdout.fileno()
    begin = None
    while os.read(fd, 1 << 20):
        begin = begin or time.perf_counter()
    seconds = time.perf_counter() - (begin or 0)
    if process.wait():
        raise SystemExit(f"{command[0]} failed")
    return WORKERS * MEGABYTES / seconds


def measure_delays(command: Sequence[str]) -> list[float]:
    """Milliseconds between a worker's print() and its line in our hands."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    delays = []
    for line in process.stdout:
        words = [word for word in line.decode().replace("]:", " ").split() if "." in word]
        if words and line.rstrip().endswith(b"x" * 60):
            delays.append((time.monotonic() - float(words[0])) * 1000)
    process.wait()
    return sorted(delays)


def measure_memory(command: Sequence[str]) -> float:
    """Peak megabytes of the launcher alone."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    peak = 0
    while os.read(process.stdout.fileno(), 1 << 20):
        with open(f"/proc/{process.pid}/status") as status:
            peak = max([peak, *(int(line.split()[1]) for line in status if line.startswith("VmHWM"))])
    process.wait()
    return peak / 1024


def compare_throughput(directory: str) -> None:
    blast, same = os.path.join(directory, "blast.py"), os.path.join(directory, "same")
    with open(same, "wb") as out:
        for _ in range(WORKERS):
            subprocess.run([sys.executable, blast, str(MEGABYTES)], stdout=out, check=True)
    ddplaunch = [os.path.join(PROGRAMS, "ddplaunch"), "--nproc-per-node", str(WORKERS)]
    logs = ["--log-dir", os.path.join(directory, "logs")]
    torchrun = [os.path.join(PROGRAMS, "torchrun"), "--nproc-per-node", str(WORKERS), "--tee", "3", *logs]
    script = [blast, str(MEGABYTES)]
    commands = {
        "cat": ["cat", same],
        "ddplaunch": [*ddplaunch, *script],
        "ddplaunch --log-dir": [*ddplaunch, *logs, *script],
        "torchrun --tee 3": [*torchrun, *script],
    }
    best = dict.fromkeys(commands, 0.0)
    for _ in range(4):
        for name, command in commands.items():
            best[name] = max(best[name], measure(command))
    promised = {
        "ddplaunch": "0.4 of cat",
        "ddplaunch --log-dir": "2.2 of torchrun",
    }
    print(f"{WORKERS} workers x {MEGABYTES} MB of 100-byte lines, to a pipe:")
    for name, speed in best.items():
        note = f"   (promised: at least {promised[name]})" if name in promised else ""
        ratios = f"{speed / best['cat']:5.2f} of cat {speed / best['torchrun --tee 3']:6.2f} of torchrun"
        print(f"  {name:<20} {speed:7.0f} MB/s   {ratios}{note}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (("blast.py", BLAST), ("clock.py", CLOCK), ("long.py", LONG)):
            with open(os.path.join(directory, name), "w") as file:
                file.write(text)
        compare_throughput(directory)
        clock = os.path.join(directory, "clock.py")
        ddplaunch = os.path.join(PROGRAMS, "ddplaunch")
        delays = measure_delays([ddplaunch, "--nproc-per-node", "4", clock])
        p99 = delays[int(len(delays) * 0.99)]
        print(f"line delay: median {statistics.median(delays):.2f} ms, p99 {p99:.2f} ms   (promised: p99 5)")
        memory = measure_memory([ddplaunch, "--nproc-per-node", "2", os.path.join(directory, "long.py")])
        print(f"two lines of 1 GB: launcher's peak {memory:.1f} MB   (promised: at most 40)")


if __name__ == "__main__":
    main()
