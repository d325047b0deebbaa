"""Files that are either the one before or the new one, whatever happens in between."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch


def save_atomically(obj: Any, path: str) -> None:
    """Write beside it, make sure that it is on disk, then take its name: there is never half a file."""
    if not path:
        raise ValueError("world.save() needs a path")
    path = os.path.realpath(path)  # a link stays a link
    if os.path.exists(path) and not os.path.isfile(path):
        _write(obj, path)  # /dev/null, a pipe: nothing to take the place of
        return
    temporary = f"{path}.tmp"
    try:
        _write(obj, temporary)
        with suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(os.path.dirname(path))


def _write(obj: Any, path: str) -> None:
    try:
        with open(path, "wb") as file:
            torch.save(obj, file)
            file.flush()
            if os.path.isfile(path):
                os.fsync(file.fileno())
    except RuntimeError as error:  # torch's words for a full disk do not say so
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def map_to(device_ids: tuple[int, ...], kind: str) -> Callable[[Any, str], Any]:
    """What rank 0 had on its first card comes to our first card, its second to our second."""

    def place(storage: Any, location: str) -> Any:
        name, _, number = location.partition(":")
        if name == "cpu" or not device_ids:
            return storage if name == "cpu" else storage.cpu()
        own = device_ids[int(number or 0) % len(device_ids)]
        return torch.serialization.default_restore_location(storage, f"{kind}:{own}")

    return place


def _sync_directory(path: str) -> None:
    """A name is on disk when its directory is; some file systems cannot be asked for that."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
