"""Each of torchrun's options has the effect it has there, or a documented reason why not."""

import argparse
import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed.run

from ddplaunch.config.settings import SETTINGS
from ddplaunch.config.torchrun import TORCHRUN
from tests.support.launcher import Run, worker

Launch = Callable[..., Run]

# What is tested elsewhere in this suite, under the name that both have.
ELSEWHERE = {
    "nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "standalone", "max_restarts",
    "module", "no_python", "log_dir", "numa_binding", "rdzv_id",
}  # fmt: skip


def their_options() -> list[str]:
    actions = torch.distributed.run.get_args_parser()._actions
    return sorted(action.dest for action in actions if action.option_strings and action.dest != "help")


def test_every_option_of_theirs_is_ours() -> None:
    ours = {setting.name for setting in (*SETTINGS, *TORCHRUN)}
    assert [name for name in their_options() if name not in ours] == []
    assert ELSEWHERE | {setting.name for setting in TORCHRUN} == set(their_options())


def test_both_spellings_and_short_names_are_the_same() -> None:
    shorts = {setting.name: setting.short for setting in (*SETTINGS, *TORCHRUN) if setting.short}
    theirs = {
        action.dest: option
        for action in torch.distributed.run.get_args_parser()._actions
        for option in action.option_strings
        if len(option) == 2 and not isinstance(action, argparse._HelpAction)
    }
    assert shorts == theirs


def dump(launch: Launch, *options: str, env: dict[str, str] | None = None) -> list[dict[str, str]]:
    """The environments of the workers."""
    run = launch("--nproc-per-node", "2", *options, worker("dump"), env=env)
    assert run.wait() == 0, run.err
    documents = [json.loads(line.partition("dump ")[2]) for line in run.out.splitlines() if "dump " in line]
    return sorted((one["env"] for one in documents), key=lambda env: int(env["RANK"]))


def test_role(launch: Launch) -> None:
    assert [env["ROLE_NAME"] for env in dump(launch, "--role", "trainer")] == ["trainer"] * 2


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "SIGTERM,SIGINT,SIGHUP,SIGQUIT"), (("--signals-to-handle", "SIGTERM,SIGUSR1"), "SIGTERM,SIGUSR1")],
)
def test_signals_to_handle(launch: Launch, words: tuple[str, ...], told: str) -> None:
    """All are passed on anyway; workers that start others as torch does read it."""
    assert [env["TORCHELASTIC_SIGNALS_TO_HANDLE"] for env in dump(launch, *words)] == [told] * 2


def test_one_of_many_virtual_local_ranks_goes_first(launch: Launch, tmp_path: Path) -> None:
    example = str(Path(__file__).parents[2] / "scripts" / "examples" / "zero_first.py")
    run = launch(
        "--virtual-local-rank", "--nproc-per-node", "3", example, "--data", str(tmp_path / "data.pt")
    )
    assert run.wait() == 0, run.err
    assert run.out.count("made the data") == 1


def test_run_path_wins_over_no_python(launch: Launch) -> None:
    run = launch("--run-path", "--no-python", worker("hello"))
    assert run.wait() == 0, run.err
    assert "ready" in run.out


def test_a_master_elsewhere_is_not_used_by_one_node(launch: Launch) -> None:
    """As in a job file for many nodes that was cut down to one."""
    run = launch("--nproc-per-node", "2", "--master-addr", "elsewhere.invalid", worker("gloo"))
    assert run.wait() == 0, run.err
    assert "--master-addr is not used, with one node: elsewhere.invalid does not resolve" in run.err


@pytest.mark.parametrize("options", [(), ("--preload", "json")])
def test_a_directory_with_a_program_in_it(launch: Launch, tmp_path: Path, options: tuple[str, ...]) -> None:
    directory = tmp_path / "program"
    directory.mkdir()
    refused = launch(str(directory))
    assert refused.wait() == 2
    assert "is a directory\n  cause: and there is no __main__.py in it" in refused.err
    (directory / "__main__.py").write_text("import beside; print(beside.X, __name__)\n")
    (directory / "beside.py").write_text("X = 7\n")
    run = launch(*options, str(directory))
    assert (run.wait(), run.out) == (0, "7 __main__\n"), run.err


@pytest.mark.parametrize("is_recorded", [True, False])
def test_whoever_started_the_launcher_finds_the_error(
    launch: Launch, tmp_path: Path, is_recorded: bool
) -> None:
    """torchrun itself is @record'ed."""
    script, outer = tmp_path / "train.py", tmp_path / "outer.json"
    script.write_text(
        "import json, os\n"
        f"if {is_recorded}:\n"
        "    error = {'message': {'message': 'ValueError: boom', 'extraInfo': {'timestamp': '7'}}}\n"
        "    json.dump(error, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
        "raise ValueError('boom')\n"
    )
    run = launch("--nproc-per-node", "2", str(script), env={"TORCHELASTIC_ERROR_FILE": str(outer)})
    assert run.wait() == 1
    error = json.loads(outer.read_text())["message"]
    assert error["message"] == "ValueError: boom"
    assert int(error["extraInfo"]["timestamp"]) > 0


def test_virtual_local_rank(launch: Launch) -> None:
    env = {"CUDA_VISIBLE_DEVICES": "4,6"}
    found = dump(launch, "--virtual-local-rank", env=env)
    assert [one["LOCAL_RANK"] for one in found] == ["0", "0"]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["4", "6"]
    unseen = dump(launch, "--virtual-local-rank")  # cards that nobody can count from here
    assert [one["CUDA_VISIBLE_DEVICES"] for one in unseen] == ["0", "1"]


def test_shutdown_timeout_is_the_grace_also_on_failure(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", "--shutdown_timeout", "1", worker("rank_1_is_stubborn"))
    run.wait_ready(2)
    run.send(signal.SIGTERM)
    assert run.wait() == 143
    assert "up to 1 s" in run.err
    variable = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}
    dry = launch("--dry-run", "train.py", env=variable)
    assert dry.wait() == 0
    assert re.search(r"grace +7.0 +TORCH_ELASTIC_SHUTDOWN_TIMEOUT", dry.out)


def test_python_exec(launch: Launch, tmp_path: Path) -> None:
    python = tmp_path / "my-python"
    python.write_text(f'#!/bin/sh\necho "mine $RANK"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    run = launch("--nproc-per-node", "2", worker("hello"), env={"PYTHON_EXEC": str(python)})
    assert run.wait() == 0
    assert "[1] mine 1" in run.out


@pytest.mark.parametrize(
    "words",
    [
        ("--monitor-interval", "5"),
        ("--start-method", "forkserver"),
        ("--local-addr", "127.0.0.1"),
        ("--event-log-handler", "null"),
        ("--run-path",),
        ("--rdzv-conf", "timeout=30,is_host=1,read_timeout=60"),
        ("--rdzv-backend", "static"),
        ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),
        ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:29400", "--nnodes", "1:1"),
        ("--standalone", "--rdzv-backend", "c10d", "--rdzv-endpoint", "x:1", "--rdzv-id", "y"),
    ],
)
def test_what_is_accepted_and_changes_nothing(launch: Launch, words: tuple[str, ...]) -> None:
    found = dump(launch, *words)
    assert [env["WORLD_SIZE"] for env in found] == ["2", "2"]
    assert found[0]["MASTER_ADDR"] == "127.0.0.1"


def test_rdzv_conf_and_endpoint_have_our_names(launch: Launch) -> None:
    options = (
        "--nnodes",
        "2",
        "--node-rank",
        "1",
        "--rdzv-endpoint",
        "[fe80::1]:4711",
        "--rdzv-conf",
        "timeout=77",
    )
    run = launch("--dry-run", *options, "train.py")
    assert run.wait() == 0, run.err
    assert re.search(r"master addr +fe80::1 +--rdzv-endpoint", run.out)
    assert re.search(r"master port +4711 +--rdzv-endpoint", run.out)
    assert re.search(r"join timeout +77.0 +--rdzv-conf", run.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--logs-specs", "mine"), "--logs-specs is not supported"),
        (("--event-log-handler", "console"), "--event-log-handler is not supported"),
        (("--rdzv-backend", "etcd"), "--rdzv-backend etcd is not supported"),
        (("--start-method", "thread"), "--start-method 'thread' is not valid"),
        (("--signals-to-handle", "SIGFOO"), "SIGFOO"),
        (("--tee", "9"), "--tee '9' is not valid"),
        (("--redirects", "a:1"), "--redirects 'a:1' is not valid"),
        (("--rdzv-conf", "x"), "--rdzv-conf 'x' is not valid"),
        (("--rdzv-conf", "timeout=x"), "timeout='x' is not valid"),
    ],
)
def test_what_is_refused_says_why(launch: Launch, words: tuple[str, ...], said: str) -> None:
    run = launch(*words, "train.py")
    assert run.wait() == 2
    assert said in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize(
    ("options", "passed"),
    [((), "--local-rank=1"), (("--use_env",), None), (("--pass-local-rank", "underscore"), "--local_rank=1")],
)
def test_the_legacy_entry_point(
    launch: Launch, environment: dict[str, str], tmp_path: Path, options: tuple[str, ...], passed: str | None
) -> None:
    directory = tmp_path / "legacy"
    directory.mkdir()
    command = [
        sys.executable,
        "-m",
        "ddplaunch.legacy",
        "--nproc_per_node=2",
        *options,
        worker("dump"),
        "--lr",
        "1",
    ]
    run = Run(command, environment, directory)
    assert run.wait() == 0, run.err
    documents = [json.loads(line.partition("dump ")[2]) for line in run.out.splitlines()]
    (second,) = [one for one in documents if one["env"]["RANK"] == "1"]
    assert second["argv"] == [*([passed] if passed else []), "--lr", "1"]


def test_the_legacy_entry_point_knows_torchruns_options(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    command = [sys.executable, "-m", "ddplaunch.legacy"]
    run = Run([*command, "--role", "x", "--use-env", worker("dump")], environment, tmp_path / "one")
    assert run.wait() == 0, run.err
    assert json.loads(run.out.partition("dump ")[2])["argv"] == []
    (tmp_path / "two").mkdir()
    refused = Run([*command, "--no-python", "true"], environment, tmp_path / "two")
    assert refused.wait() == 2
    assert "--no-python without --use-env" in refused.err


def test_a_mistake_beside_torchruns_options_is_still_summarised(launch: Launch, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    run = launch("--tee", "3", "--summary-json", str(summary), "--nnodes", "0", "train.py")
    assert run.wait() == 2
    assert json.loads(summary.read_text())["outcome"] == "usage"


def test_flags_win_over_variables_and_variables_do_not_contradict(launch: Launch, tmp_path: Path) -> None:
    env = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7", "PYTHON_EXEC": "python3"}
    dry = launch("--dry-run", "--shutdown-timeout", "5", "--no-python", "true", env=env)
    assert dry.wait() == 0, dry.err
    assert re.search(r"grace +5.0 +--shutdown-timeout", dry.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nnodes", "1:2", "--rdzv-backend", "static"), "static is for a fixed number of nodes"),
        (
            ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "h:0"),
            "a picked port cannot be known",
        ),
        (("--nnodes", "2:3", "--emit", "slurm"), "--emit is for runs of a fixed size"),
        (
            (
                "--nnodes",
                "3:2",
            ),
            "--nnodes '3:2' is not valid",
        ),
        (("--rdzv-conf", "timeout=0"), "timeout='0' is not valid"),
        (("--rdzv-backend", "C10D"), "expected static or c10d"),
        (("--nnodes", "1:3", "--nproc-per-node", "2,2,2"), "names nodes by rank"),
    ],
)
def test_what_does_not_go_together(launch: Launch, words: tuple[str, ...], said: str) -> None:
    run = launch(*words, "train.py")
    assert run.wait() == 2
    assert said in run.err


def test_emitted_job_files_keep_torchruns_options(launch: Launch) -> None:
    run = launch("--emit", "slurm", "--nnodes", "2", "--role", "tr", "--tee", "3", "train.py")
    assert run.wait() == 0, run.err
    assert "ddplaunch --tee 3 --role tr train.py" in run.out


def test_under_slurm_an_explicit_endpoint_wins(launch: Launch) -> None:
    env = {
        "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2", "SLURM_NODEID": "1",
        "SLURM_STEP_NODELIST": "n[1-2]", "SLURMD_NODENAME": "n2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    }  # fmt: skip
    run = launch("--dry-run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "n2:4711", "train.py", env=env)
    assert run.wait() == 0, run.err
    assert re.search(r"master addr +n2 +--rdzv-endpoint", run.out)
    assert re.search(r"control port +4711 +--rdzv-endpoint", run.out)
    assert re.search(r"nnodes +2 +SLURM_STEP_NUM_NODES", run.out)
