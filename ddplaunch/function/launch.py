"""launch(): a function as the job of a launcher of its own.

The launcher is a process, not a part of the caller: signal handlers, children and threads of a script, a REPL
or a notebook stay as they are.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from ddplaunch.function.errors import LaunchFailed, WorkerFailed
from ddplaunch.function.files import CALL, Call, Raised, has_outcome, read_outcome, write_call
from ddplaunch.function.options import clean_environment, render_options
from ddplaunch.function.relay import relay_output

T = TypeVar("T")


def launch_function(
    fn: Callable[..., T], args: Sequence[Any], kwargs: Mapping[str, Any] | None, options: Mapping[str, object]
) -> list[T]:
    words = render_options(options)
    with tempfile.TemporaryDirectory(prefix="ddplaunch-call-") as directory:
        write_call(directory, Call(fn, tuple(args), dict(kwargs or {})))
        summary = str(options.get("summary_json") or f"{directory}/summary.json")
        code = _run([*words, "--summary-json", summary, _beside("worker.py")], directory)
        document = _read_summary(summary)
        if code == 0 and document is not None:
            return _collect(directory, document)
        raise _explain(directory, document, code)


def _run(arguments: list[str], directory: str) -> int:
    """The launcher's exit code; Ctrl-C here is Ctrl-C there, once each time."""
    read, write = map(_lift, os.pipe())  # it lasts as long as we do, whatever ends us
    command = [sys.executable, _beside("launcher.py"), str(read), *arguments]
    for stream in (sys.stdout, sys.stderr):  # what was printed before comes before
        with suppress(AttributeError, ValueError, OSError):
            stream.flush()
    try:
        with relay_output() as (out, err):
            process = subprocess.Popen(
                command,
                env={**clean_environment(os.environ), CALL: directory},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(read,),
                start_new_session=True,
            )
            return _await(process)
    finally:
        os.close(read)
        os.close(write)


def _beside(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def _lift(fd: int) -> int:
    """Where our own stdin, stdout or stderr is closed, a pipe would be taken for it."""
    if fd > 2:
        return fd
    lifted = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return lifted


def _await(process: "subprocess.Popen[bytes]") -> int:
    interrupted = None
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt as interrupt:
            interrupted = interrupt
            process.send_signal(signal.SIGINT)
        except BaseException:  # a timeout of the caller's own, ...
            process.terminate()
            process.wait()
            raise
    if interrupted is not None:
        raise interrupted
    return code


def _read_summary(path: str) -> Any:
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _collect(directory: str, document: Any) -> list[Any]:
    """Results of this node's ranks, by rank; node 0's summary tells of all nodes."""
    attempt = document["attempts"][-1]
    number, workers = attempt["attempt"], sorted(attempt["workers"], key=lambda worker: worker["rank"])
    spoke = {worker["node_rank"] for worker in workers if has_outcome(directory, number, worker["rank"])}
    here = [worker["rank"] for worker in workers if not spoke or worker["node_rank"] in spoke]
    return [read_outcome(directory, number, rank) for rank in here]


def _explain(directory: str, document: Any, code: int) -> LaunchFailed:
    if document is None:
        reason = f"the launcher ended with {code}, and wrote no summary; what it said is on stderr"
        return LaunchFailed(reason, "internal", code)
    failure = document["first_failure"]
    if failure is None:
        return LaunchFailed(document["reason"], document["outcome"], code)
    raised = read_outcome(directory, document["attempts"][-1]["attempt"], failure["rank"])
    raised = raised if isinstance(raised, Raised) else Raised("", b"")
    failed = WorkerFailed(document["reason"], code, failure["rank"], raised.traceback, failure["tail"])
    failed.__cause__ = raised.restore()
    return failed
