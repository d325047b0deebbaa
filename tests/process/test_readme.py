"""Every command in the README, run as written; what it shows is what one sees."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ddplaunch.config.settings import SETTINGS

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    """(command, what it shows) for every `$ ` line."""
    found = []
    for block in blocks("console"):
        for session in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = session.partition("\n")
            found.append((command, shown))
    return found


def plain_commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line]


def comparable(text: str) -> list[str]:
    """Without what differs from run to run and from machine to machine."""
    text = text.replace(sys.executable, "/venv/bin/python").replace(
        os.path.dirname(sys.executable), "/venv/bin"
    )
    text = re.sub(r'File ".*?/scripts/', 'File "/home/me/scripts/', text)
    text = re.sub(r"pid \d+", "pid N", text)
    text = re.sub(r"host [\w.-]+", "host n0", text)
    text = re.sub(r"after [\d.]+ s", "after N s", text)
    text = re.sub(r"─+", "─", text)
    lines = [re.sub(r" +", " ", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if not re.fullmatch(r"(\[\d\] )?[~^]+", line)]  # Python 3.11 on
    steps = iter(sorted(line for line in lines if " step " in line))  # workers take turns as they like
    return [next(steps) if " step " in line else line for line in lines if line]


@pytest.fixture
def user(environment: dict[str, str], tmp_path: Path) -> dict[str, object]:
    """A directory with a train.py in it, and ddplaunch in PATH."""
    (tmp_path / "train.py").write_text("import os\nprint('worker', os.environ['RANK'])\n")
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    path = os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]
    return {"cwd": tmp_path, "env": {**environment, "PATH": path}}


@pytest.mark.parametrize(("command", "shown"), sessions(), ids=[command for command, _ in sessions()])
def test_sessions_look_as_shown(command: str, shown: str, user: dict[str, object]) -> None:
    done = subprocess.run(["bash", "-c", command + " 2>&1"], stdout=subprocess.PIPE, text=True, **user)  # type: ignore[call-overload]
    assert comparable(done.stdout) == comparable(shown)


@pytest.mark.parametrize(
    "command",
    [
        line
        for line in plain_commands()
        if re.match(r"(\w+=\S+ )?ddplaunch ", line) and "--nnodes" not in line
    ],
)
def test_launches_run(command: str, user: dict[str, object]) -> None:
    # This machine has no cards; the promise about them is tested on stubs.
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, **user)  # type: ignore[call-overload]
    assert (done.returncode, done.stderr) == (0, "")
    assert "worker 0" in done.stdout


def test_the_demo_learns_digits(environment: dict[str, str]) -> None:
    assert "./scripts/demo" in plain_commands()
    done = subprocess.run([ROOT / "scripts" / "demo"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = re.search(r"test accuracy ([\d.]+)% after ([\d.]+) s on 2 workers", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) > 95
    checkpoint = re.search(r"checkpoint: (.+)", done.stdout)
    assert checkpoint is not None
    assert (ROOT / checkpoint[1]).stat().st_size > 0


@pytest.mark.parametrize("script", ["test", "check"])
def test_other_scripts_are_there(script: str, environment: dict[str, str]) -> None:
    """Running them here would run this test again, or what CI has just run: they are only asked to start."""
    assert f"./scripts/{script}" in plain_commands()
    path = ROOT / "scripts" / script
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


def test_the_benchmark_is_there(environment: dict[str, str]) -> None:
    """What it measures takes minutes, and CI has it measured: here it only says what it can do."""
    (line,) = [line for line in plain_commands() if "scripts/bench" in line]
    command = [sys.executable, *line.split()[1:], "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "--guard" in done.stdout


def test_help_fits_80_columns_and_has_every_option(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "ddplaunch", "--help"]
    wide = {**environment, "COLUMNS": "200"}
    text = subprocess.run(command, capture_output=True, text=True, env=wide, check=True).stdout
    short = [*command[:-1], "-h"]
    assert subprocess.run(short, capture_output=True, text=True, env=wide, check=True).stdout == text
    assert max(map(len, text.splitlines())) <= 80
    assert [setting.option for setting in SETTINGS if setting.option not in text] == []
