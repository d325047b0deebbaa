"""Call the function that lies in the directory DDPLAUNCH_CALL, and keep what it returns.

Run by its path: the caller may have found ddplaunch where Python alone would not.
"""

import os
import sys
import traceback


def main(directory: str) -> None:
    from ddplaunch.function.files import keep_raised, read_call, write_outcome

    rank, attempt = int(os.environ["RANK"]), int(os.environ["DDPLAUNCH_ATTEMPT"])
    try:
        call = read_call(directory)
        result = call.fn(*call.args, **call.kwargs)
        write_outcome(directory, attempt, rank, result)
    except Exception as error:
        own = error.__traceback__.tb_next if error.__traceback__ else None  # without this very frame
        text = "".join(traceback.format_exception(type(error), error, own))
        write_outcome(directory, attempt, rank, keep_raised(error, text))
        sys.stderr.write(text)
        sys.stdout.flush()
        sys.exit(1)


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    main(os.environ["DDPLAUNCH_CALL"])
