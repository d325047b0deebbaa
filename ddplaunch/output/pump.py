"""Moving bytes from workers' pipes to console and logs, at the pace of whoever reads the console."""

import os
import selectors
import time
from collections.abc import Callable, Iterator

from ddplaunch.output.console import Console
from ddplaunch.output.lines import LastLines
from ddplaunch.output.logs import LogBook, Writer
from ddplaunch.output.prefix import fill_template
from ddplaunch.output.sink import HIGH_WATER, LOW_WATER, Sink
from ddplaunch.output.streams import Stream
from ddplaunch.plan.model import LaunchPlan, WorkerSpec

READ_BYTES = 1 << 16
DRAIN_BYTES = 1 << 20  # a grandchild that keeps writing must not keep a finished worker's pipe open
LINE_SECONDS = 0.2  # how long the others wait for the end of a very long line


class Pump:
    """Registers pipes and outputs with the loop's selector; the loop says when one of them is ready."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        console: Console,
        plan: LaunchPlan,
        template: str,
        logs: LogBook | None,
    ) -> None:
        self.silent: set[int] = set()  # ranks that have not written anything yet
        self._selector, self._console = selector, console
        self._plan, self._template, self._logs = plan, template, logs
        self._streams: dict[int, tuple[Stream, ...]] = {}
        self._open: set[Stream] = set()
        self._paused: set[Stream] = set()
        self._holders: dict[Stream, float] = {}  # in the middle of a very long line, and until when
        self._late: list[tuple[Stream, bytes]] = []  # the end of workers that had to wait for such a line
        self._waiting: set[Sink] = set()  # registered: their readers are slow
        self._told: set[object] = set()  # what has been complained of
        self._read_at = 0.0

    def add(self, spec: WorkerSpec, stdout: int | None, stderr: int | None) -> None:
        """Take over our ends of a worker's pipes, if it has any."""
        self._streams[spec.rank] = tuple(self._make_streams(spec, stdout, stderr))
        for stream in self._streams[spec.rank]:
            self._selector.register(stream.fd, selectors.EVENT_READ, stream)
            self._open.add(stream)
            self.silent.add(spec.rank)

    def say(self, text: str) -> None:
        """The launcher's own words on stderr, in order with the workers' lines."""
        for holder in [one for one in self._holders if one.sink is self._console.err]:
            self._break_line(holder)
        self._console.err.write(text.encode("utf-8", "backslashreplace"))

    def say_report(self, text: str) -> None:
        """Our last block; on a terminal its first line stands out."""
        first, newline, rest = text.partition("\n")
        if self._console.colour_err:
            first = f"\x1b[1;31m{first}\x1b[0m"
        self.say(first + newline + rest + "\n")

    @property
    def width(self) -> int | None:
        """Columns of the terminal on stderr, if it is one."""
        return self._console.err.width

    def read(self, stream: Stream) -> None:
        if stream in self._paused or self._is_held_up(stream):  # since the loop looked
            return
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
        self._after(stream)
        if stream.sink is not None and stream.sink.gone:
            # The reader of our stdout went away. The worker gets what it would get without us: EPIPE.
            self._close(stream)

    def finish(self, rank: int) -> None:
        """The worker is over: take what is there and close. A grandchild may hold the other end for ever."""
        for stream in self._streams[rank]:
            rest = self._drain(stream)
            if self._is_held_up(stream):
                self._late.append((stream, rest))
            else:
                self._end(stream, rest)

    def last_lines(self, rank: int) -> LastLines:
        """What a worker said last, as far as it came through us."""
        return LastLines(*(stream.last_lines() for stream in self._streams[rank]))

    def output_at(self, now: float) -> float:
        """When a worker last wrote something, as far as we let them write."""
        return now if self._paused else self._read_at

    @property
    def is_waiting(self) -> bool:
        """Whether a reader has yet to take what was written for it."""
        return bool(self._waiting)

    @property
    def deadline(self) -> float | None:
        """When balance() is wanted even if nothing happens."""
        return min(self._holders.values(), default=None)

    def balance(self) -> None:
        """A reader that is slower than the workers slows the workers, not the supervision."""
        now = time.monotonic()
        for stream in [holder for holder, until in self._holders.items() if now >= until]:
            self._break_line(stream)
        if self._late and not self._holders:
            late, self._late = self._late, []
            for stream, rest in late:
                self._end(stream, rest)
        for sink in self._console.sinks:
            self._watch(sink)
            if sink.error:
                name = "stdout" if sink is self._console.out else "stderr"
                self._complain(sink, f"cannot write to {name}: {sink.error}; training goes on")
        if self._logs is not None and self._logs.complaint:
            self._complain(self._logs, self._logs.complaint)
        self._pace()

    def close(self) -> None:
        for stream in tuple(self._open):
            self._close(stream)
        for streams in self._streams.values():
            for log in {stream.log for stream in streams if stream.log is not None}:
                log.close()
        for sink in self._console.sinks:
            sink.show_bar(b"")

    # --- streams -----------------------------------------------------------------------------------

    def _make_streams(self, spec: WorkerSpec, stdout: int | None, stderr: int | None) -> Iterator[Stream]:
        if stdout is None or stderr is None:
            return
        console = self._console
        logs = {} if self._logs is None else self._logs.open(spec)
        # stderr first, as in LastLines.
        yield self._make_stream(spec, stderr, "stderr", console.err, console.colour_err, logs.get("stderr"))
        yield self._make_stream(spec, stdout, "stdout", console.out, console.colour_out, logs.get("stdout"))

    def _make_stream(
        self, spec: WorkerSpec, fd: int, name: str, sink: Sink, colour: bool, log: Writer | None
    ) -> Stream:
        prefix = self._make_prefix(spec, name, colour) if spec.output == "prefix" else bytes
        is_hidden = spec.output == "hidden" or name not in spec.shown
        return Stream(spec.rank, fd, None if is_hidden else sink, log, prefix)

    def _make_prefix(self, spec: WorkerSpec, stream: str, colour: bool) -> Callable[[], bytes]:
        plan, template = self._plan, self._template
        values = {
            "rank": f"{spec.rank:>{len(str(plan.world_size - 1))}}",
            "local_rank": str(spec.local_rank),
            "node": str(spec.node_rank),
            "host": plan.host,
            "stream": stream,
        }
        colour_of = spec.rank if colour else None
        if "{time}" not in template:
            fixed = fill_template(template, values, colour_of)
            return lambda: fixed
        return lambda: fill_template(template, {**values, "time": time.strftime("%H:%M:%S")}, colour_of)

    def _drain(self, stream: Stream) -> bytes:
        """What is left in the pipe, which is closed."""
        rest = b""
        while stream in self._open and len(rest) < DRAIN_BYTES:
            try:
                chunk = os.read(stream.fd, READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                break
            rest += chunk
        self._close(stream)
        return rest

    def _end(self, stream: Stream, rest: bytes) -> None:
        stream.feed(rest)
        stream.finish()
        self._after(stream)

    def _close(self, stream: Stream) -> None:
        if stream not in self._open:
            return
        self._open.discard(stream)
        self._holders.pop(stream, None)
        if stream in self._paused:
            self._paused.discard(stream)
        else:
            self._selector.unregister(stream.fd)
        os.close(stream.fd)

    def _after(self, stream: Stream) -> None:
        """A very long line holds the others up; a progress bar is drawn."""
        if stream.is_mid_line and stream in self._open:
            self._holders[stream] = time.monotonic() + LINE_SECONDS
        else:
            self._holders.pop(stream, None)
        sink = stream.sink
        if sink is not None and (stream.bar or sink.has_bar):
            bars = [other for other in self._open if other.sink is sink and other.bar]
            sink.show_bar(min(bars, key=lambda other: other.rank).bar if bars else b"")

    def _break_line(self, stream: Stream) -> None:
        self._holders.pop(stream)
        stream.break_line()

    # --- pace --------------------------------------------------------------------------------------

    def _watch(self, sink: Sink) -> None:
        waits = sink.backlog > 0
        if waits and sink not in self._waiting:
            self._selector.register(sink.fd, selectors.EVENT_WRITE, sink)
            self._waiting.add(sink)
        elif not waits and sink in self._waiting:
            self._selector.unregister(sink.fd)
            self._waiting.discard(sink)

    def _pace(self) -> None:
        """Read from whom may write now, and from nobody else."""
        if not (self._paused or self._holders or self._waiting):
            return
        for stream in self._open:
            if stream in self._paused:
                if not self._must_wait(stream, LOW_WATER):
                    self._selector.register(stream.fd, selectors.EVENT_READ, stream)
                    self._paused.discard(stream)
            elif self._must_wait(stream, HIGH_WATER):
                self._selector.unregister(stream.fd)
                self._paused.add(stream)

    def _must_wait(self, stream: Stream, water: int) -> bool:
        return (stream.sink is not None and stream.sink.backlog >= water) or self._is_held_up(stream)

    def _is_held_up(self, stream: Stream) -> bool:
        """Whether somebody else is in the middle of a very long line, in the same place."""
        return any(
            holder is not stream and (holder.rank == stream.rank or holder.sink is stream.sink is not None)
            for holder in self._holders
        )

    def _complain(self, about: object, complaint: str) -> None:
        """Once, and not where it cannot be read."""
        if about not in self._told:
            self._told.add(about)
            other = self._console.out if about is self._console.err else self._console.err
            other.write(f"ddplaunch: note: {complaint}\n".encode("utf-8", "backslashreplace"))
