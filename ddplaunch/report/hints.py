"""Classic mistakes, recognised by what a worker said last. [pure]"""

from collections.abc import Sequence

_WANTS_LOCAL_RANK = "the script wants its local rank as an argument: --pass-local-rank underscore (or dash)"

_KNOWN: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("unrecognized arguments: --local-rank", "unrecognized arguments: --local_rank"),
        "the script does not take its local rank like that: --pass-local-rank underscore, dash, or neither "
        "(with ddplaunch.legacy: --use-env)",
    ),
    (
        (
            "the following arguments are required: --local-rank",
            "the following arguments are required: --local_rank",
        ),
        _WANTS_LOCAL_RANK,
    ),
    (
        ("EADDRINUSE", "Address already in use", "address already in use"),
        "a port is taken: on one node leave --master-port out, and ddplaunch picks a free one; on several "
        "name another one, or another --control-port (by default the port after it)",
    ),
    (
        ("EOFError: EOF when reading a line", "bdb.BdbQuit"),
        "stdin is empty in a worker: --interactive-rank 0 gives rank 0 the launcher's",
    ),
    (
        ("terminate called without an active exception",),
        "torch's gloo threads crash like this when Python ends right after a collective: time.sleep(0.1) as "
        "the last line helps, and ddplaunch.worker's process_group() does it for you",
    ),
    (
        ("ModuleNotFoundError: No module named 'torch'",),
        "this interpreter has no torch: --python chooses another one",
    ),
    (
        ("Connection closed by peer", "Connection reset by peer", "Connection closed by remote peer"),
        "another rank gave this connection up first, and was stopped before it said why: a `finally` or an "
        "atexit that takes long comes before the traceback",
    ),
)


# What shells and wrappers like env, nice and srun say of the command they were given.
_CODES = {
    126: "exit code 126: a shell or wrapper found the command, and may not execute it",
    127: "exit code 127: a shell or wrapper did not find the command",
}


def find_hint(lines: Sequence[str], returncode: int | None = None) -> str:
    """What to try, or nothing."""
    if any("local_rank" in line for line in lines) and any("'NoneType'" in line for line in lines):
        return _WANTS_LOCAL_RANK  # an option that torch.distributed.launch used to set, and nobody has
    for marks, hint in _KNOWN:
        if any(mark in line for line in lines for mark in marks):
            return hint
    return _CODES.get(returncode or 0, "")
