"""What faulthandler prints, and where a rank stands by it."""

import faulthandler
import threading
from pathlib import Path

from ddplaunch.report.stacks import Frame, describe_place, find_odd_ranks, group_standings, parse_stack

IN_ALL_REDUCE = """\
epoch 3
Fatal Python error: Aborted

Thread 0x00007f2 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f1 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2810 in all_reduce
  File "/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/me/a in b/train.py", line 41 in train
  File "/home/me/a in b/train.py", line 50 in <module>

Extension modules: numpy.core._multiarray_umath, torch._C (total: 2)
""".splitlines()

IN_LOADER = """\
Fatal Python error: Aborted

Current thread 0x00007f1 (most recent call first):
  File "/home/me/data.py", line 12 in load_batch
  File "/home/me/train.py", line 40 in train
""".splitlines()


def test_the_thread_that_was_hit_is_read() -> None:
    stack = parse_stack(IN_ALL_REDUCE)
    assert [frame.function for frame in stack] == ["all_reduce", "wrapper", "train", "<module>"]
    assert stack[2] == Frame("/home/me/a in b/train.py", 41, "train")


def test_what_a_script_was_forked_from_is_none_of_its_stack() -> None:
    below = [
        '  File "/lib/ddplaunch/preload/script.py", line 60 in _run_file',
        '  File "/lib/ddplaunch/preload/process.py", line 70 in main',
    ]
    assert parse_stack([*IN_LOADER, *below]) == parse_stack(IN_LOADER)


def test_places_are_told_by_call_and_own_line() -> None:
    assert describe_place(parse_stack(IN_ALL_REDUCE)) == "all_reduce, train.py:41"
    assert describe_place(parse_stack(IN_LOADER)) == "load_batch, data.py:12"
    assert describe_place(()).startswith("no Python stack")


def test_ranks_are_grouped_and_the_odd_one_is_found() -> None:
    standings = group_standings({7: IN_LOADER, **dict.fromkeys(range(7), IN_ALL_REDUCE)})
    assert [(standing.ranks, standing.place) for standing in standings] == [
        ((0, 1, 2, 3, 4, 5, 6), "all_reduce, train.py:41"),
        ((7,), "load_batch, data.py:12"),
    ]
    assert find_odd_ranks(standings) == (7,)
    assert find_odd_ranks(group_standings({0: IN_ALL_REDUCE, 1: IN_LOADER})) == (1,)
    assert find_odd_ranks(group_standings({0: IN_ALL_REDUCE, 1: IN_LOADER, 2: IN_LOADER})) == (1, 2)
    assert find_odd_ranks(group_standings({0: IN_LOADER, 1: IN_LOADER})) == ()


def test_the_beginning_of_a_long_dump_may_be_lost() -> None:
    assert parse_stack(IN_ALL_REDUCE[5:]) == parse_stack(IN_ALL_REDUCE)


def test_a_worker_that_printed_nothing_has_no_stack() -> None:
    assert parse_stack(["epoch 3", "Killed"]) == ()


def test_what_this_python_prints_is_understood(tmp_path: Path) -> None:
    """Against the real faulthandler, with a second thread about."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    with (tmp_path / "dump").open("w+") as file:
        file.write("Fatal Python error: Aborted\n\n")
        file.flush()
        faulthandler.dump_traceback(file)
        file.seek(0)
        stack = parse_stack(file.read().splitlines())
    done.set()
    other.join()
    assert stack[0].function == "test_what_this_python_prints_is_understood"
    assert stack[0].file == __file__
