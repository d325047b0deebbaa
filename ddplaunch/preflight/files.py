"""Reading what the kernel tells in small files."""


def read_text(path: str) -> str:
    """Empty when there is no such file, or it may not be read."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
