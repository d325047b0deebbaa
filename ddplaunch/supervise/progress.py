"""Whether workers get anywhere, by two looks at what they have done. [pure]"""

from ddplaunch.supervise.events import ProgressSampled

# A worker that uses less of a core than this, moves fewer bytes, and says nothing, is not getting anywhere.
# (The threads of a rank that waits in a collective take 0.4 % of a core; the kernel counts in 10 ms.)
IDLE_SHARE = 0.01
IDLE_SECONDS = 0.02
IDLE_BYTES = 1 << 16
# How often progress is looked for, in parts of the stall timeout.
SAMPLES_PER_STALL = 4


def was_suspended(before: ProgressSampled, now: ProgressSampled, stall_seconds: float) -> bool:
    """We have not looked for so long that everything, we included, must have stood still (Ctrl-Z, a VM)."""
    return now.at - before.at > 1 + 2 * stall_seconds / SAMPLES_PER_STALL


def has_progressed(before: ProgressSampled, now: ProgressSampled) -> bool:
    """Work that shrank is progress too: a child that had done it has come to its end."""
    if now.output_at > before.output_at or now.work.keys() != before.work.keys():
        return True
    idle_seconds = max(IDLE_SECONDS, IDLE_SHARE * (now.at - before.at))
    return any(
        abs(work.cpu_seconds - before.work[family].cpu_seconds) > idle_seconds
        or abs(work.moved_bytes - before.work[family].moved_bytes) > IDLE_BYTES
        for family, work in now.work.items()
    )
