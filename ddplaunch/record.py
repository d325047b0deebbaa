"""Immutable records: typing.NamedTuple to a reader and a type checker, without the 2 ms of importing typing.

Nothing else between `exec` and the first worker needs typing, and every launch would pay for it.
"""

import sys
from collections import namedtuple

TYPE_CHECKING = False  # type checkers take it for True, whoever defines it

if TYPE_CHECKING or sys.version_info >= (3, 14):  # since 3.14 only typing can read a class's annotations
    from typing import NamedTuple as Record
else:

    class _Maker(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            fields = space.get("__annotations__", {})
            defaults = [space.pop(field) for field in fields if field in space]
            plain = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            for key, value in space.items():
                setattr(plain, key, value)
            return plain

    class Record(metaclass=_Maker):
        """A subclass becomes a plain namedtuple with the fields, defaults and methods of its body."""


__all__ = ["TYPE_CHECKING", "Record"]
