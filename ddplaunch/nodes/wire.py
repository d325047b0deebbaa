"""Records as JSON and back. What comes back is checked against the record's own annotations. [pure]

Anybody may write to a control port: what is not exactly a message of ours is a BadMessageError and no more.
"""

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

VERSION = 2
LARGEST_MESSAGE = 1 << 20
MOST_DIGITS = 19  # of a whole number: more is nothing we count

T = TypeVar("T")


class BadMessageError(Exception):
    """Not a message of ours; `version` is the sender's, where it named one."""

    def __init__(self, reason: str, version: int | None = None) -> None:
        super().__init__(reason)
        self.version = version


def encode(message: object) -> bytes:
    document = {"version": VERSION, "type": type(message).__name__, "body": _to_plain(message)}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def is_portable(value: object) -> bool:
    """Whether this comes back as it was; JSON that a script wrote may hold NaN, or numbers of many digits."""
    try:
        return bool(_loads(json.dumps(value, allow_nan=False).encode()) == value)
    except (ValueError, TypeError, RecursionError):
        return False


def decode(data: bytes, kind: type[T]) -> T:
    """The message of this kind in `data`."""
    try:
        document = _loads(data)
    except (ValueError, RecursionError) as error:
        raise BadMessageError(f"no JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadMessageError("no JSON object")
    version = document.get("version")
    if version != VERSION or type(version) is not int:
        raise BadMessageError("another version", version if type(version) is int else None)
    if document.get("type") != kind.__name__:
        raise BadMessageError(f"not a {kind.__name__}")
    return _from_plain(document.get("body"), kind)  # type: ignore[no-any-return]


def _loads(data: bytes) -> Any:
    return json.loads(data, parse_int=_parse_int, parse_constant=_refuse_constant)


def _parse_int(digits: str) -> int:
    """Python takes seconds to read a number of a million digits."""
    if len(digits) > MOST_DIGITS:
        raise ValueError("a number of too many digits")
    return int(digits)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _to_plain(value: Any) -> Any:
    if _is_record(type(value)):
        return {name: _to_plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple | list):
        return [_to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _to_plain(item) for name, item in value.items()}
    return value


def _from_plain(value: Any, kind: Any) -> Any:
    """`value` as `kind`, or a BadMessageError: nothing is converted, nothing is guessed."""
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return None if value is None else _from_plain(value, get_args(kind)[0])
    if origin is tuple:
        if type(value) is not list:
            raise BadMessageError("not a list")
        item = get_args(kind)[0]
        return tuple(_from_plain(each, item) for each in value)
    if origin is not None:  # Mapping[str, Any]: what a script wrote into its own error file
        if type(value) is not dict:
            raise BadMessageError("not an object")
        return value
    if _is_record(kind):
        return _to_record(value, kind)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise BadMessageError(f"not a {kind.__name__}")
    return value


def _to_record(value: Any, kind: Any) -> Any:
    if type(value) is not dict:
        raise BadMessageError(f"not a {kind.__name__}")
    hints = _hints(kind)
    try:
        return kind(**{name: _from_plain(item, hints[name]) for name, item in value.items() if name in hints})
    except TypeError:
        raise BadMessageError(f"a {kind.__name__} with something missing") from None


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
