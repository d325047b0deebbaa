"""The preloader's life: import the modules, say how that went, fork workers while there is a launcher."""

import atexit
import gc
import os
import signal
import socket
from collections.abc import Collection, Mapping
from types import FrameType

from ddplaunch.preload.become import Changes, become, find_changes
from ddplaunch.preload.fork import fork
from ddplaunch.preload.safety import explain_failure, find_obstacle, name_daemons
from ddplaunch.preload.script import Script, has_own_modules, prepare, renew_main
from ddplaunch.preload.title import set_title
from ddplaunch.preload.wire import decode_words, receive_message, send_message
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any

# Schedulers send these to everybody they can find; to a preloader they mean nothing.
_NOT_FOR_US = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
RARELY = 1_000_000  # allocations between two collections


class Birth(Record):
    """In a worker: what it is to be, and the pipe that tells it when to begin."""

    order: "dict[str, Any]"
    descriptors: list[int]
    gate: int


def main(descriptor: int) -> None:
    """Returns in the workers only, when the script is over; the interpreter then ends as it always does."""
    # Handled, not blocked: what a module starts at its import must not inherit it.
    before = {signum: signal.signal(signum, _ignore) for signum in _NOT_FOR_US if _is_heard(signum)}
    channel = socket.socket(fileno=descriptor)
    recipe, _ = receive_message(channel)
    for own in (descriptor, recipe["strand"]):
        if own is not None:
            os.set_inheritable(own, False)
    if not recipe["leads_session"]:  # in a terminal's session, for a worker that reads from it
        os.setpgid(0, 0)
    set_title(f"ddplaunch preloader: {','.join(recipe['modules'])}", "ddplaunch-load")
    script = prepare(decode_words(recipe["argv"]))
    environ = dict(os.environ)
    try:
        send_message(channel, _import_all(recipe["modules"]))
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_US)
        birth = _serve(channel)
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the launcher is gone
        os._exit(0)
    channel.close()
    if recipe["strand"] is not None:
        os.close(recipe["strand"])  # the preloader's; a worker has its own
    _begin(birth, script, find_changes(environ), before, mask)


def _begin(
    birth: Birth, script: Script, changes: Changes, handlers: "Mapping[signal.Signals, Any]", mask: "set[Any]"
) -> None:
    """From here on this process is a worker."""
    argv = decode_words(birth.order["argv"])
    become(birth.order, argv, birth.descriptors, changes)
    for signum, handler in handlers.items():
        if signal.getsignal(signum) is _ignore:  # else a module has set its own
            signal.signal(signum, handler)
    os.read(birth.gate, 1)  # nobody writes: it closes when the launcher is this worker's parent
    os.close(birth.gate)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if has_own_modules():  # what they leave to the end of Python is frozen, too
        atexit.register(gc.unfreeze)
    script.run(argv)


def _is_heard(signum: int) -> bool:
    return signal.getsignal(signum) is not signal.SIG_IGN  # nohup


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Whoever sent it meant the workers, or the launcher."""


def _import_all(modules: Collection[str]) -> "dict[str, Any]":
    thresholds = gc.get_threshold()
    gc.set_threshold(RARELY)  # imports make objects, and next to no garbage
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            return {"problem": explain_failure(name, error)}
    obstacle = find_obstacle()
    if obstacle is not None:
        return {"problem": obstacle}
    if gc.get_threshold()[0] == RARELY:
        gc.set_threshold(*thresholds)
    gc.freeze()  # the collector would write to every object, and so copy its page in each worker
    renew_main()
    return {"daemons": name_daemons()}


def _serve(channel: socket.socket) -> Birth:
    while True:
        _, (orders,) = receive_message(channel)  # an attempt begins
        birth = _fork_workers(socket.socket(fileno=orders))
        if birth is not None:
            return birth
        send_message(channel, {"over": True})


def _fork_workers(orders: socket.socket) -> Birth | None:
    """All workers of an attempt, by way of a process that leaves when they are there.

    Orphans become children of the nearest subreaper, which is the launcher: it watches them and takes their
    exit codes as if it had started them. They begin when that is so.
    """
    gate, opener = os.pipe()
    try:
        go_between = fork()
    except OSError as error:
        os.close(opener)
        os.close(gate)
        _refuse(orders, error)
        return None
    if go_between == 0:
        os.close(opener)
        birth = _take_orders(orders, gate)
        if birth is None:
            os._exit(0)
        orders.close()
        return birth
    os.close(gate)
    orders.close()
    os.waitpid(go_between, 0)
    os.close(opener)
    return None


def _take_orders(orders: socket.socket, gate: int) -> Birth | None:
    """A worker for each; in the worker, who it is."""
    while True:
        try:
            order, descriptors = receive_message(orders)
        except EOFError:  # that was all
            return None
        try:
            pid = fork()
        except OSError as error:
            _refuse(orders, error)
            return None
        if pid == 0:
            return Birth(order, descriptors, gate)
        send_message(orders, {"pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)


def _refuse(orders: socket.socket, error: OSError) -> None:
    send_message(orders, {"problem": (error.strerror or str(error)).lower()})
    orders.close()
