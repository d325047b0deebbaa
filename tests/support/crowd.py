"""crowd.py HOST PORT COUNT: nodes 1 to COUNT of a run in one process, on real sockets, saying real messages.

They join, stay for a while, one of them fails, all stop and leave. Prints how long things took, as JSON.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable

import zmq

from ddplaunch.nodes import messages
from ddplaunch.nodes.channel import set_heartbeat
from ddplaunch.nodes.messages import Account, Ending, Hello, Orders, Status
from ddplaunch.nodes.wire import decode, encode

IDLE_SECONDS = 6.0
FAILED_NODE = 500


class Crowd:
    def __init__(self, place: str, hello: Hello, count: int) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 2 * count)
        self._poller = zmq.Poller()
        self._nodes: dict[zmq.Socket[bytes], Status] = {}
        self.stages: dict[int, str] = {}  # what each was told last
        for node in range(1, count + 1):
            one = self._context.socket(zmq.DEALER)
            one.linger = 0
            set_heartbeat(one, 15.0)
            one.connect(place)
            self._poller.register(one, zmq.POLLIN)
            self._nodes[one] = Status(node, os.urandom(8).hex(), 0, hello, messages.READY)

    def say(self, **changes: object) -> None:
        for one in self._nodes:
            self._say(one, **changes)

    def say_as(self, node: int, **changes: object) -> None:
        self._say(next(one for one, status in self._nodes.items() if status.node == node), **changes)

    def await_stage(self, *stages: str) -> float:
        """Until all have been told so; when that was."""
        while not all(self.stages.get(status.node) in stages for status in self._nodes.values()):
            assert self.listen(60.0), f"{len(self.stages)} nodes have heard of {set(self.stages.values())}"
        return time.monotonic()

    def listen(self, seconds: float) -> bool:
        ready = dict(self._poller.poll(int(seconds * 1000)))
        for one in ready:
            while one.poll(0):
                self.stages[self._nodes[one].node] = decode(one.recv(), Orders).stage
        return bool(ready)

    def _say(self, one: "zmq.Socket[bytes]", **changes: object) -> None:
        status = self._nodes[one]
        self._nodes[one] = status._replace(number=status.number + 1, **changes)  # type: ignore[arg-type]
        one.send(encode(self._nodes[one]))


def measure(crowd: Crowd, idle: Callable[[], float]) -> dict[str, float]:
    began = time.monotonic()
    crowd.say()
    joined = crowd.await_stage(messages.START)
    crowd.say(stage=messages.RUNNING)
    cpu_share = idle()
    failed = time.monotonic()
    crowd.say_as(FAILED_NODE, ending=Ending(messages.FAILED, 0.0, FAILED_NODE, 7))
    stopped = crowd.await_stage(messages.STOP)
    crowd.say(stage=messages.CLEAR, account=Account((), 1.0, None, (), True))
    crowd.await_stage(messages.LEAVE)
    crowd.say(stage=messages.LEFT)
    crowd.listen(0.5)
    return {"join": joined - began, "stop": stopped - failed, "cpu_share": cpu_share}


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(host: str, port: str, count: str, launcher: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * int(count) + 100), hard))
    hello = Hello(
        "crowd", "launch", int(count) + 1, 1, int(port) - 1, 0, "", "", "", "", "", "", "", 30.0, 0.0, 600.0
    )
    crowd = Crowd(f"tcp://{host}:{port}", hello, int(count))

    def idle() -> float:
        while crowd.listen(1.0):  # what is still underway
            pass
        before, began = cpu_seconds(int(launcher)), time.monotonic()
        while time.monotonic() - began < IDLE_SECONDS:
            crowd.listen(0.5)
        return (cpu_seconds(int(launcher)) - before) / (time.monotonic() - began)

    print(json.dumps(measure(crowd, idle)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
