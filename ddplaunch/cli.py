"""argv -> command line -> run, and the only file that prints an error or exits."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from ddplaunch.argv import CommandLine, cut_plain
from ddplaunch.config.settings import SETTINGS
from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem, render_problem
from ddplaunch.run import run, save_summary

EXIT_INTERNAL = 70  # sysexits.h: EX_SOFTWARE


def main(argv: Sequence[str] | None = None) -> None:
    """Every way out of the program is here."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    environ = os.environ.copy()
    debug = "--debug" in arguments or bool(environ.get("DDPLAUNCH_DEBUG"))
    started_at = time.time()
    try:
        line = cut_plain(arguments) or _ask_click(arguments)
        code = 0 if line is None else run(line.options, line.script, line.script_args, environ)
    except LaunchError as failure:
        _print_failure(failure, debug)
        _save_refusal(arguments, environ, failure, started_at)
        code = failure.exit_code
    except KeyboardInterrupt:  # before the launcher takes the signals over
        code = 130
    except Exception as error:
        what = f"this is a bug in ddplaunch: {type(error).__name__}: {error}"
        hint = "run it again with --debug, and report what it prints"
        _print_failure(LaunchError(Problem(what, hint=hint)), debug)
        code = EXIT_INTERNAL
    sys.exit(code)


def _ask_click(arguments: Sequence[str]) -> CommandLine | None:
    from ddplaunch.command import parse_arguments

    return parse_arguments(arguments)


def _print_failure(failure: LaunchError, debug: bool) -> None:
    text = "\n".join(render_problem(problem) for problem in failure.problems) + "\n"
    if debug:
        import traceback

        text = traceback.format_exc() + text
    with suppress(OSError):  # no stderr: the exit code still tells
        os.write(2, text.encode("utf-8", "backslashreplace"))


def _save_refusal(
    arguments: Sequence[str], environ: dict[str, str], failure: LaunchError, started_at: float
) -> None:
    """The summary file of a run that never began."""
    path = _find_summary_path(arguments) or environ.get("DDPLAUNCH_SUMMARY_JSON")
    if not path:
        return
    from ddplaunch.report.model import RunResult

    outcome = "preflight" if failure.exit_code == EXIT_PREFLIGHT else "usage"
    seconds = time.time() - started_at
    save_summary(path, RunResult("", outcome, failure.exit_code, str(failure), started_at, seconds))


def _find_summary_path(arguments: Sequence[str]) -> str | None:
    """--summary-json's value, when the rest of the line may be unreadable."""
    takes_value = {setting.option for setting in SETTINGS if setting.metavar}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if not word.startswith("-") or word == "--":
            return None
        if name not in takes_value:
            continue
        given = value if equals else next(words, None)
        if name == "--summary-json":
            return given
    return None
