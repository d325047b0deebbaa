"""The files through which launch() and its workers talk: a call, and a result or an error for each rank."""

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ddplaunch.record import Record

CALL = "DDPLAUNCH_CALL"  # where they lie; no argument, because those are compared between nodes


class Call(Record):
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Raised(Record):
    """What the function raised. Some exceptions can be pickled and not be made again."""

    traceback: str
    pickled: bytes

    def restore(self) -> BaseException | None:
        try:
            error = pickle.loads(self.pickled)
        except Exception:
            return None
        return error if isinstance(error, BaseException) else None


def write_call(directory: str, call: Call) -> None:
    """Functions are pickled by name where a worker can import them, else as they are."""
    import cloudpickle

    module = sys.modules.get(getattr(call.fn, "__module__", None) or "")
    by_value = module is not None and module.__name__ != "__main__" and not _can_be_imported(module.__name__)
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        _write(f"{directory}/call", pickle.dumps((sys.path, sys.argv, cloudpickle.dumps(tuple(call)))))
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


def read_path(directory: str) -> list[str]:
    """Where the caller finds its modules."""
    with open(f"{directory}/call", "rb") as file:
        return list(pickle.load(file)[0])


def read_call(directory: str) -> Call:
    """Modules and arguments are the caller's."""
    with open(f"{directory}/call", "rb") as file:
        sys.path[:], sys.argv[:], data = pickle.load(file)
    call = Call(*pickle.loads(data))
    _adopt(call)
    return call


def _can_be_imported(name: str) -> bool:
    """By a process that knows nothing but our sys.path; what is loaded here does not count."""
    top = name.partition(".")[0]
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return any(finder.find_spec(top, None) is not None for finder in finders)


def _adopt(call: Call) -> None:
    """What stood in the caller's script stands in ours: its classes can be pickled between workers."""
    main = sys.modules["__main__"]
    known = dict(getattr(call.fn, "__globals__", {}))
    values = [call.fn, *call.args, *call.kwargs.values()]
    known.update({type(value).__name__: type(value) for value in values})
    for name, value in known.items():
        if getattr(value, "__module__", None) == "__main__" and not hasattr(main, name):
            setattr(main, name, value)


def keep_raised(error: BaseException, traceback: str) -> Raised:
    import cloudpickle

    try:
        return Raised(traceback, cloudpickle.dumps(error.with_traceback(None)))
    except Exception:  # it holds a lock, a socket, ...
        return Raised(traceback, b"")


def write_outcome(directory: str, attempt: int, rank: int, outcome: Any) -> None:
    import cloudpickle

    _write(_outcome_path(directory, attempt, rank), cloudpickle.dumps(outcome))


def read_outcome(directory: str, attempt: int, rank: int) -> Any:
    """None for a worker that left without a word."""
    try:
        with open(_outcome_path(directory, attempt, rank), "rb") as file:
            return pickle.load(file)
    except FileNotFoundError:
        return None


def has_outcome(directory: str, attempt: int, rank: int) -> bool:
    return os.path.exists(_outcome_path(directory, attempt, rank))


def _outcome_path(directory: str, attempt: int, rank: int) -> str:
    return f"{directory}/outcome_{attempt}_{rank}"


def _write(path: str, data: bytes) -> None:
    """Whole or not at all."""
    with open(f"{path}.tmp", "wb") as file:
        file.write(data)
    os.replace(f"{path}.tmp", path)
