"""Where values come from, and what is said about wrong ones."""

from collections.abc import Mapping

import pytest

from ddplaunch.config.resolve import LaunchConfig, find_unknown_variables, resolve
from ddplaunch.errors import LaunchError, Problem


def config(options: Mapping[str, object], environ: Mapping[str, str] | None = None) -> LaunchConfig:
    return resolve(options, "train.py", (), environ or {})


def problems(options: Mapping[str, object], environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    with pytest.raises(LaunchError) as caught:
        config(options, environ)
    return caught.value.problems


@pytest.mark.parametrize(
    ("options", "environ", "value", "source"),
    [
        ({"nproc_per_node": "4"}, {"DDPLAUNCH_NPROC_PER_NODE": "3"}, (4,), "--nproc-per-node"),
        ({}, {"DDPLAUNCH_NPROC_PER_NODE": "3", "PET_NPROC_PER_NODE": "2"}, (3,), "DDPLAUNCH_NPROC_PER_NODE"),
        ({}, {"PET_NPROC_PER_NODE": "2"}, (2,), "PET_NPROC_PER_NODE"),
        ({}, {"DDPLAUNCH_NPROC_PER_NODE": ""}, "auto", "default"),
        ({}, {}, "auto", "default"),
    ],
)  # fmt: skip
def test_a_value_remembers_its_source(
    options: dict[str, object], environ: dict[str, str], value: object, source: str
) -> None:
    found = config(options, environ)
    assert (found.nproc_per_node, found.sources["nproc_per_node"]) == (value, source)


@pytest.mark.parametrize("raw", ["0", "-1", "abc", "", "2,0", "2,,3", "1_0", " 4", "٤", "9" * 30])
def test_a_bad_worker_count_is_quoted_back(raw: str) -> None:
    (problem,) = problems({"nproc_per_node": raw})
    assert problem.what == f"--nproc-per-node {raw!r} is not valid"
    assert problem.exit_code == 2


@pytest.mark.parametrize("raw", ["-1", "65536", "x"])
def test_ports_end_at_65535(raw: str) -> None:
    (problem,) = problems({}, {"PET_MASTER_PORT": raw})
    assert problem.what == f"PET_MASTER_PORT={raw!r} is not valid"
    assert problem.cause == "expected 0 to 65535"


def test_a_node_rank_that_does_not_exist() -> None:
    (problem,) = problems({"nnodes": "3", "node_rank": "5", "nproc_per_node": "8"})
    assert problem.what == "--node-rank '5': there is no such node"
    assert problem.cause == "with 3 nodes (--nnodes), node ranks are 0 to 2"


def test_all_problems_at_once() -> None:
    found = problems({"nnodes": "x", "grace": "-3", "format": "yaml", "wrap_ranks": "0", "dry_run": True})
    said = [problem.what.split()[0] for problem in found]
    assert said == ["--nnodes", "--grace", "--format", "--wrap-ranks"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nnodes": "2", "nproc_per_node": "2,3,3"}, "names 3 nodes, and there are 2"),
        ({"nnodes": "2", "master_port": "0"}, "cannot be known on other nodes"),
        ({"module": True, "no_python": True}, "contradict"),
        ({"python": "python3", "no_python": True}, "contradict"),
        ({"standalone": True, "nnodes": "2"}, "contradict"),
        ({"env": ("RANK=3",)}, "--env cannot set RANK"),
        ({"env": ("TORCHELASTIC_ERROR_FILE=x",)}, "--env cannot set TORCHELASTIC_ERROR_FILE"),
        ({"format": "json"}, "--format without --dry-run"),
        ({"master_addr": ""}, "--master-addr '' is not valid"),
        ({"grace": "1_0"}, "--grace '1_0' is not valid"),
        ({"grace": "1e300"}, "--grace '1e300' is not valid"),
        ({"timeout": "0"}, "--timeout '0' is not valid"),
        ({"env": ("NOVALUE",)}, "--env 'NOVALUE' is not valid"),
        ({"wrap": "nsys 'unclosed"}, "--wrap"),
        ({"console": "1-x"}, "--console '1-x' is not valid"),
    ],
)
def test_contradictions(options: dict[str, object], said: str) -> None:
    assert said in problems(options)[0].what


def test_standalone_overrules_the_environment() -> None:
    environ = {"PET_NNODES": "4", "PET_NODE_RANK": "3", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "29777"}
    found = config({"standalone": True}, environ)
    assert (found.nnodes, found.node_rank, found.master_addr, found.master_port) == (1, 0, None, 0)
    assert config({"standalone": True, "master_port": "4711"}, environ).master_port == 4711
    assert found.sources["nnodes"] == "--standalone"


def test_lists_and_words() -> None:
    found = config({"console": "0,2-4", "wrap": "nsys -o 'p {rank}'", "env": ("A=1", "B=x=y")})
    assert found.console == frozenset({0, 2, 3, 4})
    assert found.wrap == ("nsys", "-o", "p {rank}")
    assert found.env == (("A", "1"), ("B", "x=y"))
    assert config({}, {"DDPLAUNCH_ENV": "A=1 B='x y'"}).env == (("A", "1"), ("B", "x y"))
    assert config({"console": "none"}).console == frozenset()
    assert config({"console": "all"}).console is None


def test_the_default_port_depends_on_the_nodes() -> None:
    assert config({}).master_port == 0
    assert config({"nnodes": "2"}).master_port == 29500


def test_no_script() -> None:
    with pytest.raises(LaunchError, match="no training script"):
        resolve({}, None, (), {})


def test_misspelt_variables_are_found() -> None:
    environ = {"DDPLAUNCH_NPROC": "4", "DDPLAUNCH_GRACE": "3", "DDPLAUNCH_RUN_ID": "x", "PATH": "/bin"}
    assert find_unknown_variables(environ) == ["DDPLAUNCH_NPROC"]
