"""Real network stacks: each node of a run on a host of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.hosts import Lab, node_options, why_not
from tests.support.launcher import DDPLAUNCH, Run


@pytest.fixture(scope="session")
def _lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if why_not():
        pytest.skip(why_not())
    lab = Lab(3, tmp_path_factory.mktemp("lab"))
    yield lab
    lab.close()


@pytest.fixture
def lab(_lab: Lab) -> Iterator[Lab]:
    """Whatever a test does to the network, the next one finds it whole."""
    yield _lab
    for number in range(len(_lab.hosts)):
        _lab.heal(number)


class Nodes:
    """Launchers on the hosts of a lab, one per node."""

    def __init__(self, lab: Lab, environment: dict[str, str], directory: Path) -> None:
        self._lab, self._environment, self._directory = lab, environment, directory
        self.runs: list[Run] = []

    def start(
        self,
        number: int,
        *arguments: str,
        count: int = 3,
        host: int | None = None,
        env: dict[str, str] | None = None,
    ) -> Run:
        """Node `number` of `count`, on the host of that number or on another one."""
        command = [*DDPLAUNCH, *node_options(number, count), *map(str, arguments)]
        return self.start_command(number if host is None else host, command, env)

    def start_command(
        self,
        host: int,
        command: list[str],
        env: dict[str, str] | None = None,
        working_directory: Path | None = None,
    ) -> Run:
        directory = self._directory / f"node_{len(self.runs)}"
        directory.mkdir()
        command = self._lab.hosts[host].command(*command, directory=working_directory)
        self.runs.append(Run(command, {**self._environment, **(env or {})}, directory))
        return self.runs[-1]

    def start_all(self, *arguments: str, count: int = 3) -> list[Run]:
        return [self.start(number, *arguments, count=count) for number in range(count)]


@pytest.fixture
def nodes(lab: Lab, environment: dict[str, str], tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(lab, environment, tmp_path)
    yield nodes
    for run in nodes.runs:
        run.end()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """A training script with these lines."""

    def write(text: str, name: str = "train.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def codes(runs: list[Run]) -> list[int]:
    return [run.wait() for run in runs]
