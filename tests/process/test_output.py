"""What arrives on the launcher's stdout and stderr."""

import os
import pty
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.launcher import DDPLAUNCH, Run, worker

Launch = Callable[..., Run]


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "worker.py"
    path.write_text(text)
    return str(path)


def test_lines_are_whole_complete_and_in_order(launch: Launch, tmp_path: Path) -> None:
    run = launch("--nproc-per-node", "8", script(tmp_path, "for n in range(10000): print('line', n, 'end')"))
    assert run.wait() == 0
    lines = run.out.splitlines()
    for rank in range(8):
        mine = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert mine == [f"[{rank}] line {n} end" for n in range(10000)]
    assert len(lines) == 80000


def test_streams_stay_apart(launch: Launch, tmp_path: Path) -> None:
    text = "import sys; print('to out'); print('to err', file=sys.stderr)"
    run = launch("--nproc-per-node", "2", script(tmp_path, text))
    assert run.wait() == 0
    assert sorted(run.out.splitlines()) == ["[0] to out", "[1] to out"]
    assert sorted(run.err.splitlines()) == ["[0] to err", "[1] to err"]


def test_bytes_are_data(launch: Launch, tmp_path: Path) -> None:
    text = "import os\nos.write(1, b'\\xff\\x00[/red]\\x1b[31m\\n' + b'x' * 3_000_000 + b'\\nno newline')\n"
    run = launch("--nproc-per-node", "2", "--console", "1", script(tmp_path, text))
    assert run.wait() == 0
    whole = b"[1] \xff\x00[/red]\x1b[31m\n[1] " + b"x" * 3_000_000 + b"\n[1] no newline\n"
    assert run.out_bytes == whole


def test_raw_output_is_inherited(launch: Launch, tmp_path: Path) -> None:
    text = "import os\nos.write(1, b'plain\\n')"  # in one piece: nobody keeps raw lines apart
    run = launch("--output", "raw", "--nproc-per-node", "2", script(tmp_path, text))
    assert run.wait() == 0
    assert run.out == "plain\nplain\n"


def test_prefixes_are_as_wide_as_the_largest_rank(launch: Launch, tmp_path: Path) -> None:
    run = launch("--nproc-per-node", "11", script(tmp_path, "print('hi')"))
    assert run.wait() == 0
    assert sorted(run.out.splitlines()) == [f"[{rank:2}] hi" for rank in range(11)]


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_run(launch: Launch, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    text = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pid_file)!r} + sys.argv[0][-1], 'a').write(f'{{child.pid}}\\n')\n"
        "print('done')\n"
    )
    run = launch("--nproc-per-node", "2", script(tmp_path, text))
    assert run.wait(30) == 0
    assert run.out.count("done") == 2
    for name in tmp_path.glob("pid*"):
        for pid in name.read_text().split():
            os.kill(int(pid), 9)


def _on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # EIO: the last writer is gone
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    process.wait(60)
    return seen.decode()


def test_colour_on_a_terminal_and_not_against_no_color(environment: dict[str, str]) -> None:
    environment["TERM"] = "xterm"
    command = [*DDPLAUNCH, "--nproc-per-node", "2", worker("hello")]
    assert "\x1b[36m[0]\x1b[0m ready" in _on_a_terminal(command, environment)
    assert "\x1b" not in _on_a_terminal(command, {**environment, "NO_COLOR": "1"})


def test_a_terminal_is_left_as_it_was(environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    command = [*DDPLAUNCH, "--nproc-per-node", "2", worker("hello")]
    subprocess.run(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, check=True)
    assert os.get_blocking(theirs)
    os.close(ours)
    os.close(theirs)


def test_a_closed_stdout_does_not_stop_the_run(environment: dict[str, str], tmp_path: Path) -> None:
    chatty = script(tmp_path, "for n in range(20000): print('line', n)")
    command = " ".join([*DDPLAUNCH, "--nproc-per-node", "2", chatty, ">&-"])
    assert subprocess.run(["sh", "-c", command], env=environment, timeout=60, check=False).returncode == 0


def test_a_full_disk_is_told_once_and_training_goes_on(launch: Launch, tmp_path: Path) -> None:
    chatty = script(tmp_path, "for n in range(20000): print('line', n)")
    with open("/dev/full", "wb") as full:
        run = launch("--nproc-per-node", "2", chatty, stdout=full)
        assert run.wait() == 0
    assert run.err == "ddplaunch: note: cannot write to stdout: no space left on device; training goes on\n"


def test_a_socket_as_stdout_gets_every_line(launch: Launch, tmp_path: Path) -> None:
    """What a program started by Node.js, inetd or a supervisor has."""
    chatty = script(tmp_path, "for n in range(5000): print('line', n)")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        run = launch("--nproc-per-node", "2", chatty, stdout=theirs)
        theirs.close()
        seen = b"".join(iter(lambda: ours.recv(65536), b""))
        assert run.wait() == 0
        assert seen.count(b"\n") == 10000


def test_a_reader_that_leaves_ends_the_run(environment: dict[str, str], tmp_path: Path) -> None:
    endless = script(tmp_path, "import itertools\nfor n in itertools.count(): print('line', n)")
    command = " ".join([*DDPLAUNCH, "--nproc-per-node", "2", endless, "2>/dev/null | head -1"])
    done = subprocess.run(
        ["sh", "-c", command], env=environment, timeout=60, capture_output=True, check=False
    )
    assert done.stdout.endswith(b"line 0\n")


def test_a_slow_reader_slows_the_workers_not_the_supervision(launch: Launch, tmp_path: Path) -> None:
    """Nobody reads: rank 0 writes on, and rank 1's failure is acted on all the same."""
    text = (
        "import os, sys, time\n"
        "print(f'ready pid={os.getpid()}', file=sys.stderr)\n"
        "while os.environ['RANK'] == '0': print('x' * 1000)\n"
        "time.sleep(0.5)\nsys.exit(5)\n"
    )
    read, write = os.pipe()
    run = launch("--nproc-per-node", "2", script(tmp_path, text), stdout=write)
    os.close(write)
    assert run.wait() == 5
    os.close(read)
    assert "first failure: rank 1, exit code 5" in run.err


def test_a_template_before_every_line(launch: Launch, tmp_path: Path) -> None:
    text = "import sys; print('to out'); print('to err', file=sys.stderr)"
    template = "{time} {node}.{local_rank}/{rank} {stream}> "
    run = launch("--prefix", template, "--nproc-per-node", "2", script(tmp_path, text))
    assert run.wait() == 0
    for seen, name in ((run.out, "out"), (run.err, "err")):
        lines = sorted(line.partition(" ")[2] for line in seen.splitlines())
        assert lines == [f"0.{rank}/{rank} std{name}> to {name}" for rank in range(2)]
        assert all(len(line.partition(" ")[0]) == len("12:34:56") for line in seen.splitlines())


def test_a_template_with_a_mistake(launch: Launch) -> None:
    run = launch("--prefix", "{rnak}", worker("hello"))
    assert run.wait() == 2
    assert "{rnak} is none of them" in run.err


def test_very_long_lines_of_many_ranks_stay_whole(launch: Launch, tmp_path: Path) -> None:
    text = "import os\nfor n in range(3): print(os.environ['RANK'] * 7_000_000)\n"
    run = launch("--nproc-per-node", "3", script(tmp_path, text))
    assert run.wait() == 0
    expected = [b"[%d] " % rank + b"%d" % rank * 7_000_000 for rank in range(3) for _ in range(3)]
    assert sorted(run.out_bytes.splitlines()) == expected


def test_a_line_that_does_not_end_does_not_hold_the_others_up(launch: Launch, tmp_path: Path) -> None:
    """Rank 0 leaves a very long line open: rank 1 goes on, in lines of its own."""
    text = (
        "import os, sys, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    print('0' * 3_000_000, end='', flush=True)\n"
        "    time.sleep(600)\n"
        "time.sleep(0.5)\n"
        "for n in range(5): print('line', n)\n"
        "sys.exit(3)\n"
    )
    run = launch("--nproc-per-node", "2", script(tmp_path, text))
    assert run.wait() == 3
    assert [line for line in run.out.splitlines() if "line" in line] == [f"[1] line {n}" for n in range(5)]
    assert run.out.count("0") >= 3_000_000


def test_identical_tracebacks_are_folded(launch: Launch, tmp_path: Path) -> None:
    text = (
        "import os, signal\n"
        "from meet import announce_all\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "announce_all()\n"
        "raise KeyError(os.environ['RANK'])\n"
    )
    (tmp_path / "meet.py").symlink_to(worker("meet"))
    run = launch("--nproc-per-node", "4", script(tmp_path, text))
    assert run.wait() == 1
    block = run.err[run.err.index("ddplaunch: first failure") :]
    assert block.count("Traceback") == 1
    assert "its last lines on stderr (x4: the same on ranks " in block
