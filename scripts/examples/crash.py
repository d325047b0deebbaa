"""Four workers add numbers; one of them meets a bad sample. Shows what ddplaunch says then."""

import os
import time

RANK = int(os.environ["RANK"])


def load(step: int) -> dict[str, float]:
    is_bad = RANK == 2 and step == 25
    return {"label": 1.0} if is_bad else {"image": 0.5, "label": 1.0}


def train() -> None:
    total = 0.0
    for step in range(1000):
        total += load(step)["image"]
        if step % 100 == 0:
            print(f"step {step}: {total:.1f}")
        time.sleep(0.02)


train()
