"""os.fork, without Python's warning about threads."""

import os
import warnings


def fork() -> int:
    """Since 3.12 it warns of any thread, also of those that libraries know how to fork."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
