"""torchrun's options about output: which streams are shown, which go to files, and where those lie."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import Run

Launch = Callable[..., Run]


@pytest.fixture
def speak(tmp_path: Path) -> str:
    """A script whose ranks say something on both streams."""
    path = tmp_path / "speak.py"
    path.write_text(
        "import os, sys\n"
        "rank = os.environ['RANK']\n"
        "print(f'out {rank} apple')\n"
        "print(f'err {rank} pear', file=sys.stderr)\n"
    )
    return str(path)


def files(directory: Path) -> dict[str, str]:
    """What stands in the files of an attempt, by the part of their names that is fixed."""
    found = {}
    for path in directory.rglob("attempt_0/**/*.log"):
        found[str(path).partition("/attempt_0/")[2]] = path.read_text()
    return found


@pytest.mark.parametrize("option", ["--redirects", "--redirects=3", "-r"])
def test_redirects(launch: Launch, speak: str, tmp_path: Path, option: str) -> None:
    words = (option,) if "=" in option else (option, "3")
    run = launch("--nproc_per_node", "2", "--log_dir", str(tmp_path), "--rdzv-id", "job", *words, speak)
    assert (run.wait(), run.out, run.err) == (0, "", "")
    assert files(tmp_path) == {
        "0/stdout.log": "out 0 apple\n", "0/stderr.log": "err 0 pear\n",
        "1/stdout.log": "out 1 apple\n", "1/stderr.log": "err 1 pear\n",
    }  # fmt: skip
    assert len(list(tmp_path.glob("job_*/attempt_0/1/stdout.log"))) == 1


def test_redirects_and_tee_by_rank(launch: Launch, speak: str, tmp_path: Path) -> None:
    options = ("--nproc-per-node", "11", "-r", "0:1,10:2", "-t", "1:1", "--log-dir", str(tmp_path))
    run = launch(*options, speak)
    assert run.wait() == 0
    assert files(tmp_path) == {
        "0/stdout.log": "out 0 apple\n", "10/stderr.log": "err 10 pear\n", "1/stdout.log": "out 1 apple\n",
    }  # fmt: skip
    assert "out 0" not in run.out
    assert "err 10" not in run.err
    assert "[ 1] out 1 apple" in run.out
    assert "[10] out 10 apple" in run.out
    assert "[ 0] err 0 pear" in run.err


def test_tee_without_a_directory(launch: Launch, speak: str, tmp_path: Path) -> None:
    run = launch("--nproc-per-node", "2", "--tee", "3", speak, env={"TMPDIR": str(tmp_path)})
    assert run.wait() == 0
    (directory,) = tmp_path.glob("torchelastic_*")
    assert f"streams are kept in {directory};" in run.err
    assert len(list(directory.glob("*/attempt_0/*/std*.log"))) == 4


def test_the_directory_is_named_by_the_run(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "name.py"
    script.write_text("import os; print(os.environ['TORCHELASTIC_RUN_ID'])\n")
    run = launch("--nproc-per-node", "2", "-r", "1", "--log-dir", str(tmp_path / "logs"), str(script))
    assert run.wait() == 0, run.err
    (name,) = set(files(tmp_path).values())
    assert len(list((tmp_path / "logs").glob(f"{name.strip()}_*/attempt_0/1/stdout.log"))) == 1


@pytest.mark.parametrize(
    ("option", "name"),
    [((), "rank_1_error.json"), (("-t", "2"), "1/error.json"), (("-r", "0:3"), "1/error.json")],
)
def test_error_files_are_kept_with_the_logs(
    launch: Launch, tmp_path: Path, option: tuple[str, ...], name: str
) -> None:
    script = tmp_path / "recorded.py"
    script.write_text(
        "import json, os, signal, sys\n"
        "if os.environ['RANK'] == '0': signal.pause()\n"
        "json.dump({'message': 'boom'}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))\n"
        "sys.exit(3)\n"
    )
    logs = tmp_path / "logs"
    run = launch("--nproc-per-node", "2", "--max-restarts", "1", "--log-dir", str(logs), *option, str(script))
    assert run.wait() == 3
    for attempt in range(2):
        found = list(logs.glob(f"2*/attempt_{attempt}/**/*error.json"))
        assert [str(path).partition(f"attempt_{attempt}/")[2] for path in found] == [name]
        assert json.loads(found[0].read_text()) == {"message": "boom"}


def test_local_ranks_filter(launch: Launch, speak: str) -> None:
    run = launch("--nproc-per-node", "3", "--local_ranks_filter", "0,2", speak)
    assert run.wait() == 0
    assert sorted(run.out.splitlines()) == ["[0] out 0 apple", "[2] out 2 apple"]
    assert sorted(run.err.splitlines()) == ["[0] err 0 pear", "[2] err 2 pear"]


def test_duplicate_filters(launch: Launch, speak: str, tmp_path: Path) -> None:
    options = ("--duplicate-stdout-filters", "out 1,nothing", "--duplicate-stderr-filters", "pear")
    run = launch("--nproc-per-node", "2", *options, "--log-dir", str(tmp_path), speak)
    assert run.wait() == 0
    found = files(tmp_path)
    assert found["filtered_stdout.log"] == "[1] out 1 apple\n"
    assert sorted(found["filtered_stderr.log"].splitlines()) == ["[0] err 0 pear", "[1] err 1 pear"]


def test_line_prefix_template(launch: Launch, speak: str) -> None:
    env = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name}${local_rank}/${rank}> "}
    run = launch("--nproc-per-node", "2", speak, env=env)
    assert run.wait() == 0
    assert "<default1/1> out 1 apple" in run.out


@pytest.mark.parametrize(
    ("template", "shown"),
    [("{x} $rank ", "{x} 1 out 1 apple"), ("<${role_name}> ", "<trainer> out 1 apple")],
)
def test_any_line_prefix_template(launch: Launch, speak: str, template: str, shown: str) -> None:
    env = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": template}
    run = launch("--nproc-per-node", "2", "--role", "trainer", speak, env=env)
    assert run.wait() == 0, run.err
    assert shown in run.out


def test_a_run_name_does_not_lead_out_of_the_log_directory(
    launch: Launch, speak: str, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    run = launch("--nproc-per-node", "2", "--rdzv-id", "../../evil", "-t", "3", "--log-dir", str(logs), speak)
    assert run.wait() == 0
    assert len(list(logs.glob("*evil_*/attempt_0/1/stdout.log"))) == 1


def test_a_log_that_cannot_be_written_stops_nothing(launch: Launch, speak: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = launch("--nproc-per-node", "2", "--tee", "3", "--log-dir", str(tmp_path / "file"), speak)
    assert run.wait() == 0
    assert "training goes on" in run.err
    assert "out 1 apple" in run.out
    assert os.path.getsize(tmp_path / "file") == 0


def test_pet_variables(launch: Launch, speak: str, tmp_path: Path) -> None:
    env = {
        "PET_NPROC_PER_NODE": "2",
        "PET_TEE": "3",
        "PET_LOG_DIR": str(tmp_path),
        "PET_MONITOR_INTERVAL": "1",
    }
    run = launch(speak, env=env)
    assert run.wait() == 0, run.err
    assert len(files(tmp_path)) == 4
