"""What the probes saw, as values. [pure]"""

from ddplaunch.record import Record


class ScriptFacts(Record):
    """What stands at the path of the script; `missing` is the system's reason."""

    path: str
    missing: str = ""
    is_here: bool = False  # there is a file of that name, but not in PATH
    is_directory: bool = False
    is_program: bool = False  # a directory that Python runs
    is_readable: bool = True
    is_executable: bool = True


class LimitFacts(Record):
    """None where this system does not tell."""

    open_files: int | None = None
    open_files_hard: int | None = None
    shared_memory_bytes: int | None = None
    available_memory_bytes: int | None = None


class Facts(Record):
    """All that is judged before a launch."""

    script: ScriptFacts
    interpreter: ScriptFacts | None  # --python, when it was given
    wrapper: ScriptFacts | None  # --wrap's program, when it was given
    unwritable: str  # why the summary file could not be written; empty when it can
    limits: LimitFacts
