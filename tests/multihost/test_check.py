"""--check on several nodes at once."""

import json

from tests.multihost.conftest import Nodes, codes
from tests.support.launcher import worker


def test_every_node_is_told_whom_node_0_sees_and_how_far_they_are(nodes: Nodes) -> None:
    runs = nodes.start_all("--check", "--format", "json")
    assert codes(runs) == [0, 0, 0]
    for run in runs:
        seen = json.loads(run.out)["nodes"]
        assert [(one["node"], one["host"]) for one in seen] == [(0, "n0"), (1, "n1"), (2, "n2")]
        assert all(0 < one["round_trip"] < 5 for one in seen[1:])


def test_a_missing_node_fails_the_check_on_all(nodes: Nodes) -> None:
    runs = [nodes.start(number, "--check", "--join-timeout", "4") for number in (0, 1)]
    assert codes(runs) == [4, 4]
    for run in runs:
        assert "waiting for node 2 (have 0 n0, 1 n1)" in run.out


def test_a_check_does_not_disturb_a_launch(nodes: Nodes) -> None:
    first = nodes.start(0, worker("hello"), count=2)
    checker = nodes.start(1, "--check", count=2)
    assert checker.wait() == 4
    assert "the nodes do not agree on purpose" in checker.out
    assert codes([first, nodes.start(1, worker("hello"), count=2)]) == [0, 0]
