"""Small files of a run: the summary, the directory for error files."""

import os


def write_atomically(path: str, text: str) -> None:
    """A reader sees the old file or the whole new one."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def open_run_directory(path: str) -> bool:
    """Make the run's own directory; without one, @record in a script has nowhere to write, no more."""
    try:
        os.mkdir(path, 0o700)
    except OSError:
        return False
    return True


def remove_run_directory(path: str) -> None:
    """Only the files that workers were told to write there; whatever else is in it stays."""
    try:
        for name in os.listdir(path):
            if name.endswith("_error.json"):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        pass


def read_error_file(path: str) -> dict[str, object] | None:
    """What `@record` left, if it is whole: torch does not write it atomically."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
