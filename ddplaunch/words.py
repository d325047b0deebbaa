"""Exit codes, signals, ranks and times in words. [pure]"""

import signal
from collections.abc import Iterable


def describe_exit(returncode: int | None) -> str:
    """`exit code 7`, `killed by SIGKILL`, `killed by SIGSEGV (segmentation fault)`."""
    if returncode is None:
        return "could not be killed"
    if returncode >= 0:
        return f"exit code {returncode}"
    return f"killed by {describe_signal(-returncode)}"


def describe_signal(signum: int) -> str:
    try:
        name = signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"
    words = (signal.strsignal(signum) or "").lower()
    return name if not words or words in ("killed", "terminated", "interrupt") else f"{name} ({words})"


def exit_code_of(returncode: int) -> int:
    """As a shell spells it: 128 + n for signal n."""
    return returncode if returncode >= 0 else 128 - returncode


def describe_ranks(ranks: Iterable[int]) -> str:
    """`rank 4`, `ranks 0-2, 5`."""
    ordered = sorted(ranks)
    return f"{'rank' if len(ordered) == 1 else 'ranks'} {describe_runs(ordered, ', ')}"


def describe_runs(numbers: Iterable[int], separator: str) -> str:
    """`0-2,5`: neighbours taken together."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return separator.join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def describe_seconds(seconds: float) -> str:
    """`0.42 s`, `12.3 s`, `7 min 5 s`, `3 h 20 min`."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def describe_wait(ranks: Iterable[int], signum: int | None, kill_in: float) -> str:
    """What is said while workers are being stopped."""
    if signum is None:
        return f"waiting for {describe_ranks(ranks)} to stop; SIGKILL in {kill_in:.0f} s"
    again = "; Ctrl-C again kills at once" if signum == signal.SIGINT else ""
    return (
        f"received {describe_signal(signum)}: stopping {describe_ranks(ranks)}, up to {kill_in:.0f} s{again}"
    )


def describe_restart(number: int, most: int, seconds: float) -> str:
    when = f" in {describe_seconds(seconds)}" if seconds else ""
    return f"restart {number} of {most}{when}: all workers start again"


def shorten_command(command: str) -> str:
    """What people know a process by: program and script without their directories, in one short line."""
    words = command.split(" ")
    line = " ".join([word.rpartition("/")[2] for word in words[:3]] + words[3:])
    line = "".join(c if c.isprintable() else " " for c in line)
    return line if len(line) <= 60 else line[:57] + "..."
