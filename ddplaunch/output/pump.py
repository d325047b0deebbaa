"""Moving bytes from workers' pipes to the console, at the pace of whoever reads the console."""

import os
import selectors
import time
from collections.abc import Iterator

from ddplaunch.output.console import Console
from ddplaunch.output.lines import LastLines
from ddplaunch.output.sink import HIGH_WATER, LOW_WATER, Sink
from ddplaunch.output.streams import Stream, make_prefix

READ_BYTES = 1 << 16
DRAIN_BYTES = 1 << 20  # a grandchild that keeps writing must not keep a finished worker's pipe open


class Pump:
    """Registers pipes and outputs with the loop's selector; the loop says when one of them is ready."""

    def __init__(self, selector: selectors.BaseSelector, console: Console, world_size: int) -> None:
        self.console = console
        self._selector = selector
        self._world_size = world_size
        self._streams: dict[int, tuple[Stream, ...]] = {}
        self._open: set[Stream] = set()
        self._paused: set[Stream] = set()
        self._waiting: set[Sink] = set()  # registered: their readers are slow
        self._complained: set[Sink] = set()
        self._read_at = 0.0
        self.silent: set[int] = set()  # ranks that have not written anything yet

    def add(self, rank: int, stdout: int | None, stderr: int | None, shown: bool) -> None:
        """Take over our ends of a worker's pipes, if it has any."""
        self._streams[rank] = tuple(self._open_streams(rank, stdout, stderr, shown))
        for stream in self._streams[rank]:
            self._selector.register(stream.fd, selectors.EVENT_READ, stream)
            self._open.add(stream)
            self.silent.add(rank)

    def read(self, stream: Stream) -> None:
        try:
            chunk = os.read(stream.fd, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close(stream)
            return
        self._read_at = time.monotonic()
        self.silent.discard(stream.rank)
        stream.feed(chunk)
        if stream.sink is not None and stream.sink.gone:
            # The reader of our stdout went away. The worker gets what it would get without us: EPIPE.
            self._close(stream)

    def finish(self, rank: int) -> None:
        """The worker is over: take what is there and close. A grandchild may hold the other end for ever."""
        for stream in self._streams[rank]:
            self._drain(stream)
            stream.finish()

    def last_lines(self, rank: int) -> LastLines:
        """What a worker said last, as far as it came through us."""
        return LastLines(*(stream.tail.lines() for stream in self._streams[rank]))

    def output_at(self, now: float) -> float:
        """When a worker last wrote something, as far as we let them write."""
        return now if self._paused else self._read_at

    @property
    def is_waiting(self) -> bool:
        """Whether a reader has yet to take what was written for it."""
        return bool(self._waiting)

    def balance(self) -> None:
        """A reader that is slower than the workers slows the workers, not the supervision."""
        for sink in self.console.sinks:
            self._watch(sink)
            if sink.backlog > HIGH_WATER:
                self._pause(sink)
            if sink.error and sink not in self._complained:
                self._complain(sink)
        if self._paused:
            self._resume()

    def close(self) -> None:
        for stream in tuple(self._open):
            self._close(stream)

    def _open_streams(
        self, rank: int, stdout: int | None, stderr: int | None, shown: bool
    ) -> Iterator[Stream]:
        console = self.console
        if stderr is not None:  # first, as in LastLines
            prefix = make_prefix(rank, self._world_size, console.colour_err)
            yield Stream(rank, stderr, console.err if shown else None, prefix)
        if stdout is not None:
            prefix = make_prefix(rank, self._world_size, console.colour_out)
            yield Stream(rank, stdout, console.out if shown else None, prefix)

    def _drain(self, stream: Stream) -> None:
        taken = 0
        while stream in self._open and taken < DRAIN_BYTES:
            try:
                chunk = os.read(stream.fd, READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                break
            taken += len(chunk)
            stream.feed(chunk)
        self._close(stream)

    def _close(self, stream: Stream) -> None:
        if stream not in self._open:
            return
        self._open.discard(stream)
        if stream in self._paused:
            self._paused.discard(stream)
        else:
            self._selector.unregister(stream.fd)
        os.close(stream.fd)

    def _watch(self, sink: Sink) -> None:
        waits = sink.backlog > 0
        if waits and sink not in self._waiting:
            self._selector.register(sink.fd, selectors.EVENT_WRITE, sink)
            self._waiting.add(sink)
        elif not waits and sink in self._waiting:
            self._selector.unregister(sink.fd)
            self._waiting.discard(sink)

    def _pause(self, sink: Sink) -> None:
        for stream in self._open - self._paused:
            if stream.sink is sink:
                self._selector.unregister(stream.fd)
                self._paused.add(stream)

    def _resume(self) -> None:
        for stream in tuple(self._paused):
            if stream.sink is None or stream.sink.backlog < LOW_WATER:
                self._selector.register(stream.fd, selectors.EVENT_READ, stream)
                self._paused.discard(stream)

    def _complain(self, sink: Sink) -> None:
        """Once, on the other output: it may be all right."""
        self._complained.add(sink)
        name, other = (
            ("stdout", self.console.err) if sink is self.console.out else ("stderr", self.console.out)
        )
        other.write(f"ddplaunch: note: cannot write to {name}: {sink.error}; training goes on\n".encode())
