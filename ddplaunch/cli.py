"""argv -> command line -> run, and the only file that prints an error or exits."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from ddplaunch.argv import cut_arguments
from ddplaunch.config.line import CommandLine
from ddplaunch.errors import (
    EXIT_JOIN,
    EXIT_LOST,
    EXIT_PREFLIGHT,
    EXIT_USAGE,
    LaunchError,
    Problem,
    render_problem,
)
from ddplaunch.job import save_summary
from ddplaunch.output.plain import print_out
from ddplaunch.run import run

EXIT_INTERNAL = 70  # sysexits.h: EX_SOFTWARE
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141  # what a shell says of a program that SIGPIPE ended

_OUTCOMES = {
    EXIT_USAGE: "usage",
    EXIT_PREFLIGHT: "preflight",
    EXIT_JOIN: "join",
    EXIT_LOST: "node-lost",
    129: "interrupted",
    EXIT_INTERRUPTED: "interrupted",
    143: "interrupted",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Every way out of the program is here."""
    started_at = time.time()
    _fill_standard_descriptors()
    arguments = list(sys.argv[1:] if argv is None else argv)
    environ = os.environ.copy()
    environ.pop("", None)  # `=x` can be inherited, and not be passed on
    cut = cut_arguments(arguments)
    try:
        line = cut.line if cut.is_plain else _ask_click(arguments)
        if isinstance(line, CommandLine):
            code = run(line, environ)
        else:
            print_out(line)
            code = 0
    except BrokenPipeError:  # ddplaunch --dry-run ... | head
        code = EXIT_PIPE
    except Exception as error:
        code = _refuse(_explain(error), cut.line, environ, started_at)
    except KeyboardInterrupt as error:  # before the launcher takes the signals over
        code = _refuse(_explain(error), cut.line, environ, started_at)
    sys.exit(code)


def _fill_standard_descriptors() -> None:
    """stdin, stdout or stderr that came closed (`>&-`): else the next pipe would be taken for it."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _ask_click(arguments: Sequence[str]) -> CommandLine | str:
    from ddplaunch.command import parse_arguments

    return parse_arguments(arguments)


def _explain(error: BaseException) -> LaunchError:
    if isinstance(error, LaunchError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return LaunchError(Problem("interrupted before any worker was started", exit_code=EXIT_INTERRUPTED))
    what = f"this is a bug in ddplaunch: {type(error).__name__}: {error}"
    hint = "run it again with --debug, and report what it prints"
    return LaunchError(Problem(what, hint=hint, exit_code=EXIT_INTERNAL))


def _refuse(failure: LaunchError, line: CommandLine, environ: dict[str, str], started_at: float) -> int:
    """Say on the screen, and in the summary file, why nothing was started."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # these are our last words already
    text = "\n".join(render_problem(problem) for problem in failure.problems) + "\n"
    if line.options.get("debug") or environ.get("DDPLAUNCH_DEBUG", "0") not in ("", "0"):
        import traceback

        text = traceback.format_exc() + text
    path = line.options.get("summary_json") or environ.get("DDPLAUNCH_SUMMARY_JSON")
    if path:
        from ddplaunch.report.model import RunResult

        code, seconds = failure.exit_code, time.time() - started_at
        outcome = failure.outcome or _OUTCOMES.get(code, "internal")
        result = RunResult("", outcome, code, str(failure), started_at, seconds)
        text += save_summary(str(path), result)
    with suppress(OSError):  # no stderr: the exit code still tells
        os.write(2, text.encode("utf-8", "backslashreplace"))
    return failure.exit_code
