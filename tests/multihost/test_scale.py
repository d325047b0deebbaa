"""A thousand nodes: node 0 is a real launcher, the others are sockets that say what nodes say."""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.multihost.conftest import Nodes
from tests.support.hosts import Lab
from tests.support.launcher import worker
from tests.support.processes import memory_of, wait_until

CROWD = Path(__file__).parents[1] / "support" / "crowd.py"
COUNT = 999


@pytest.mark.slow
@pytest.mark.alone
def test_a_thousand_nodes(nodes: Nodes, lab: Lab) -> None:
    first = nodes.start(0, worker("sleep"), count=COUNT + 1)
    wait_until(lambda: lab.listens(0, 29501), "node 0 listens")
    arguments = ["n0", "29501", str(COUNT), str(first.pid)]
    crowd = nodes.start_command(1, [sys.executable, str(CROWD), *arguments])
    first.wait_ready(1)
    largest = memory_of(first.pid)
    while first.process.poll() is None and crowd.process.poll() is None:
        with suppress(FileNotFoundError, StopIteration):  # it is over
            largest = max(largest, memory_of(first.pid))
        time.sleep(0.1)
    assert first.wait() == 7, first.err
    assert crowd.wait() == 0, crowd.err
    took = json.loads(crowd.out)
    assert took["join"] < 5
    assert took["stop"] < 1
    assert took["cpu_share"] < 0.2
    assert largest < 150 << 20
