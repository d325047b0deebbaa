"""save_and_kill.py FILE COUNT: fork a saver, kill it at a random moment, look at the file; COUNT times."""

import os
import random
import signal
import sys
import time

import torch

from ddplaunch.worker import process_group


def save_for_ever(path: str, ready: int) -> None:
    with process_group() as world:
        number = torch.randint(1 << 30, (1,))
        while True:
            number += 1
            world.save({"number": number, "body": number.expand(300_000).clone()}, path)
            os.write(ready, b".")


def main(path: str, count: str) -> None:
    random.seed(0)
    torch.set_num_threads(1)
    numbers, writing = set(), 0
    for _ in range(int(count)):
        read, ready = os.pipe()
        pid = os.fork()
        if pid == 0:
            torch.manual_seed(time.time_ns())
            save_for_ever(path, ready)
        os.close(ready)
        os.read(read, 1)  # the first one is whole
        time.sleep(random.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        writing += os.path.exists(f"{path}.tmp")
        saved = torch.load(path, weights_only=True)
        assert bool((saved["body"] == saved["number"]).all()), "not what was saved"
        numbers.add(int(saved["number"]))
    print(f"{count} kills, {len(numbers)} different checkpoints, {writing} while writing")


if __name__ == "__main__":
    main(*sys.argv[1:])
