"""A worker fails: exit codes, the report, and nobody left alive."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.launcher import Run, worker
from tests.support.processes import is_alive

Launch = Callable[..., Run]
SummaryOf = Callable[..., tuple[Run, dict[str, Any]]]


def test_the_last_block_names_the_first_failure(launch: Launch) -> None:
    run = launch("--nproc-per-node", "4", worker("fail"), "2", "raise")
    pids = run.wait_ready(4)
    assert run.wait() == 1
    block = run.err[run.err.index("ddplaunch: first failure") :].splitlines()
    assert block[0].startswith("ddplaunch: first failure: rank 2, exit code 1, after ")
    assert "others: ranks 0-1, 3 stopped by the launcher" in block[2]
    assert block[-1] == "ValueError: boom in rank 2"
    assert "Traceback (most recent call last):" in block
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("exit7", 7, "exit code 7"),
        ("signal9", 137, "killed by SIGKILL, not sent by the launcher"),
        ("signal11", 139, "killed by SIGSEGV (segmentation fault)"),
    ],
)
def test_the_exit_code_is_the_workers_own(launch: Launch, how: str, code: int, said: str) -> None:
    run = launch("--nproc-per-node", "3", worker("fail"), "1", how)
    assert run.wait() == code
    assert f"first failure: rank 1, {said}" in run.err


def test_a_worker_alone_fails(launch: Launch) -> None:
    run = launch(worker("fail"), "0", "exit3")
    assert run.wait() == 3
    assert "first failure: rank 0, exit code 3" in run.err


def test_the_summary_tells_it_to_programs(summary_of: SummaryOf) -> None:
    run, summary = summary_of("--nproc-per-node", "3", worker("fail"), "1", "raise")
    assert run.process.returncode == 1
    assert (summary["outcome"], summary["exit_code"]) == ("worker-failed", 1)
    assert summary["first_failure"]["rank"] == 1
    assert summary["first_failure"]["tail"][-1] == "ValueError: boom in rank 1"
    workers = {one["rank"]: one for one in summary["attempts"][0]["workers"]}
    assert [workers[rank]["stopped_by_launcher"] for rank in range(3)] == [True, False, True]
    assert workers[0]["signal"] == 15


def test_a_success_has_a_summary_too(summary_of: SummaryOf) -> None:
    _, summary = summary_of("--nproc-per-node", "2", worker("hello"))
    assert (summary["outcome"], summary["first_failure"], summary["log_dir"]) == ("success", None, None)
    assert [one["exit_code"] for one in summary["attempts"][0]["workers"]] == [0, 0]


def test_an_error_file_of_record_is_read(summary_of: SummaryOf, tmp_path: Any) -> None:
    script = tmp_path / "recorded.py"
    script.write_text(
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main():\n    raise KeyError('recorded')\nmain()\n"
    )
    _, summary = summary_of("--nproc-per-node", "2", str(script))
    assert "recorded" in summary["first_failure"]["error_file"]["message"]["message"]


def test_an_error_file_speaks_for_a_worker_whose_output_is_not_ours(launch: Launch, tmp_path: Any) -> None:
    script = tmp_path / "recorded.py"
    script.write_text(
        "import json, os, sys\n"
        "error = {'message': {'message': 'K', 'extraInfo': {'py_callstack': 'Traceback: recorded'}}}\n"
        "json.dump(error, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\nsys.exit(4)\n"
    )
    run = launch("--output", "raw", "--nproc-per-node", "2", str(script))
    assert run.wait() == 4
    assert run.err.endswith("  what @record wrote:\n\nTraceback: recorded\n")


def test_a_hidden_rank_is_still_reported(launch: Launch) -> None:
    run = launch("--console", "0", "--nproc-per-node", "3", worker("fail"), "2", "raise")
    assert run.wait() == 1
    assert "[2]" not in run.out + run.err
    assert run.err.endswith("ValueError: boom in rank 2\n")


def test_workers_that_ignore_sigterm_are_killed_after_the_grace(launch: Launch) -> None:
    run = launch("--grace", "0.5", "--nproc-per-node", "3", worker("stubborn"), "fail")
    run.wait_ready(3)
    assert run.wait() == 9


@pytest.mark.programs
def test_a_program_that_cannot_be_executed(launch: Launch, tmp_path: Any) -> None:
    program = tmp_path / "no_interpreter"
    program.write_text("#!/nonexistent/python\n")
    program.chmod(0o755)
    run = launch("--nproc-per-node", "2", "--no-python", str(program))
    assert run.wait() == 3
    assert "cannot start rank 0" in run.err
    assert "Traceback" not in run.err


@pytest.mark.programs
def test_when_one_worker_cannot_be_started_the_others_are_ended(launch: Launch) -> None:
    run = launch("--wrap", "{rank}", "--wrap-ranks", "2", "--nproc-per-node", "3", worker("sleep"))
    assert run.wait() == 3
    assert "cannot start rank 2: 2\n  cause: no such file or directory" in run.err


def test_too_few_open_files_are_refused(launch: Launch) -> None:
    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    run = launch("--nproc-per-node", "200", worker("sleep"), preexec_fn=limit)
    assert run.wait() == 3
    assert "200 workers need 1240 open files, and only 100 are allowed" in run.err
    most = launch("--nproc-per-node", "10", worker("fail"), "0", "exit4", preexec_fn=limit)
    assert most.wait() == 4
    assert "first failure" in most.err


def test_what_others_say_afterwards_does_not_bury_the_cause(launch: Launch, tmp_path: Any) -> None:
    (tmp_path / "meet.py").symlink_to(worker("meet"))
    script = tmp_path / "talkative.py"
    script.write_text(
        "import os, signal, sys\n"
        "from meet import announce_all\n"
        "def talk(*_):\n"
        "    for n in range(200): print('stopping', n, file=sys.stderr)\n"
        "    sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, talk)\n"
        "announce_all()\n"
        "if os.environ['RANK'] == '3': raise RuntimeError('the cause')\n"
        "while True: signal.pause()\n"
    )
    run = launch("--nproc-per-node", "5", str(script))
    assert run.wait() == 1
    assert run.err.count("stopping 199") == 4
    assert run.err.endswith("RuntimeError: the cause\n")
    assert "first failure: rank 3" in run.err
