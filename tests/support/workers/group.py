"""group.py WHAT: something with process_group(), which the tests look at."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from ddplaunch.worker import BarrierTimeoutError, PeerFailedError, process_group

what = sys.argv[1]


def paths(directory: str) -> None:
    import errno
    import stat

    os.chdir(directory)
    with process_group() as world:
        world.save({"a": 1}, "file.pt")
        os.chmod("file.pt", 0o640)
        world.save({"a": 2}, "file.pt")
        print(f"mode {stat.S_IMODE(os.stat('file.pt').st_mode):o}")
        os.symlink("file.pt", "link.pt")
        world.save({"a": 3}, "link.pt")
        print(
            "link stays" if os.path.islink("link.pt") and world.load("file.pt")["a"] == 3 else "link is gone"
        )
        os.mkfifo("pipe")
        fd = os.open("pipe", os.O_RDWR)
        world.save({"a": 4}, "pipe")
        print("pipe stays" if stat.S_ISFIFO(os.stat("pipe").st_mode) else "pipe is gone")
        os.close(fd)
        try:
            world.save({}, "")
        except ValueError:
            print("empty refused")
        try:
            world.save({"a": torch.ones(100_000)}, "/dev/full")
        except OSError as error:
            print("full: no space" if error.errno == errno.ENOSPC else f"full: {error}")


if what == "paths":
    paths(sys.argv[2])
    sys.exit()
if what == "again":
    try:
        with process_group():
            raise ValueError("boom")
    except ValueError:
        print("first failed")
    with process_group() as world:
        total = torch.ones(1)
        dist.all_reduce(total)
        print(f"second {total.item()}")
        try:
            with process_group():
                pass
        except RuntimeError as error:
            print("in our words" if "process_group() does that itself" in str(error) else error)
    sys.exit()
if what == "twice":
    for _ in range(2):
        with process_group(timeout=60) as world:
            if world.rank == 0:
                time.sleep(0.5)
            began_at = time.monotonic()
            world.barrier()
            print(f"rank={world.rank} waited {time.monotonic() - began_at:.2f}")
    sys.exit()
with process_group(timeout=60, seed=3) as world:
    if what == "place":
        draw = int(torch.randint(1 << 20, (1,)))
        same = torch.tensor([draw, -draw])
        dist.all_reduce(same, dist.ReduceOp.MAX)
        world.barrier()
        print(
            f"rank={world.rank} local={world.local_rank} size={world.size} node={world.node} "
            f"device={world.device} ids={world.device_ids} main={world.is_main} attempt={world.attempt} "
            f"same={int(same[0]) == -int(same[1])}"
        )
    elif what == "missing":
        if world.rank in (1, 2):
            time.sleep(6)
        try:
            world.barrier(timeout=2)
        except BarrierTimeoutError as error:
            print(f"rank {world.rank}: {error}; missing {error.missing}")
        else:
            print(f"rank {world.rank}: came too late to miss anybody")
        os._exit(0)
    elif what in ("raise in barrier", "raise in save", "raise in zero_first", "raise at the end"):
        if world.rank == 0:
            time.sleep(1)
        began_at = time.monotonic()
        try:
            if what == "raise in save":
                world.save({"lambda": lambda: 0} if world.is_main else {}, "/nowhere/at/all.pt")
            elif what == "raise in zero_first":
                with world.zero_first("global"):
                    if world.rank == 0:
                        raise ValueError("boom")
            elif world.rank == 0:
                raise ValueError("boom")
            elif what == "raise in barrier":
                world.barrier()
        except PeerFailedError as error:
            print(f"rank {world.rank}: heard after {time.monotonic() - began_at:.0f} s: {error}")
            raise
    elif what == "turns":
        for scope in ("node", "global"):
            with world.zero_first(scope):
                print(f"{scope} rank={world.rank} at={time.monotonic()}")
                if (world.rank if scope == "global" else world.local_rank) == 0:
                    time.sleep(0.3)
    elif what == "preempted":
        preempted = world.on_preemption()
        print(f"ready pid={os.getpid()} rank={world.rank}")
        step = 0
        while not preempted():
            step += 1
            time.sleep(0.002 * (world.rank + 1))
        print(f"rank {world.rank} stops at step {step}")
    elif what == "two flags":
        one, two = world.on_preemption(), world.on_preemption()
        print(f"ready pid={os.getpid()} rank={world.rank}")
        while not one():
            time.sleep(0.01)
        print(f"both {one()} {two()}")
    elif what in ("raise", "exit 7"):
        total = torch.ones(1000)
        dist.all_reduce(total)
        if what == "raise":
            raise ValueError("boom")
        sys.exit(7)
    elif what == "signals":
        before = signal.getsignal(signal.SIGUSR1)
        world.on_preemption()
    elif what == "nodes":
        with world.zero_first():
            print(f"rank={world.rank} node={world.node} host={os.uname().nodename} at={time.monotonic()}")
            time.sleep(0.3 * (world.local_rank == 0))
    elif what == "late signal":
        preempted = world.on_preemption()
        os.kill(os.getpid(), signal.SIGUSR1)
        print("asked", preempted())
if what == "late signal":
    os.kill(os.getpid(), signal.SIGUSR1)
    print("still here")
if what == "signals":
    print("restored", signal.getsignal(signal.SIGUSR1) == before, not dist.is_initialized())
