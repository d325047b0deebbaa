"""Workers of a test wait for each other, so that a fault hits all of them at work."""

import os
import time


def announce_all() -> None:
    """Announce this worker, and come back when every worker of the attempt has."""
    print(f"ready pid={os.getpid()} rank={os.environ['RANK']}")
    attempt = os.environ["DDPLAUNCH_RUN_ID"] + "-" + os.environ["DDPLAUNCH_ATTEMPT"] + "-"
    directory = os.environ["DDP_TEST_DIRECTORY"]
    with open(os.path.join(directory, attempt + os.environ["RANK"]), "w"):
        pass
    while sum(name.startswith(attempt) for name in os.listdir(directory)) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
