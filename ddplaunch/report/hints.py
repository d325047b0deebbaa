"""Classic mistakes, recognised by what a worker said last. [pure]"""

from collections.abc import Sequence

_KNOWN: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank"),
        "the script does not take a local rank: leave --pass-local-rank out, or try its other spelling",
    ),
    (
        (
            "the following arguments are required: --local-rank",
            "the following arguments are required: --local_rank",
        ),
        "the script wants its local rank as an argument: --pass-local-rank dash (or underscore)",
    ),
    (
        ("EADDRINUSE", "Address already in use", "address already in use"),
        "a port is taken: leave --master-port out, and ddplaunch picks a free one",
    ),
    (
        ("terminate called without an active exception",),
        "gloo may crash like this while a rank leaves: dist.barrier() before destroy_process_group()",
    ),
    (
        ("ModuleNotFoundError: No module named 'torch'",),
        "this interpreter has no torch: --python chooses another one",
    ),
)


# What shells and wrappers like env, nice and srun say of the command they were given.
_CODES = {
    126: "exit code 126: a shell or wrapper found the command, and may not execute it",
    127: "exit code 127: a shell or wrapper did not find the command",
}


def find_hint(lines: Sequence[str], returncode: int | None = None) -> str:
    """What to try, or nothing."""
    for marks, hint in _KNOWN:
        if any(mark in line for line in lines for mark in marks):
            return hint
    return _CODES.get(returncode or 0, "")
