"""What the probes saw, as values. [pure]"""

from typing import NamedTuple


class ScriptFacts(NamedTuple):
    """What stands at the path of the script; `missing` is the system's reason."""

    path: str
    missing: str = ""
    is_directory: bool = False
    is_readable: bool = True
    is_executable: bool = True


class LimitFacts(NamedTuple):
    """None where this system does not tell."""

    open_files: int | None = None
    open_files_hard: int | None = None
    shared_memory_bytes: int | None = None
    available_memory_bytes: int | None = None
