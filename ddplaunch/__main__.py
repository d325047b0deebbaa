"""`ddplaunch` and `python -m ddplaunch`."""

import gc
import sys


def main() -> None:
    # Start-up makes objects and no garbage; looking for it costs a tenth of the time to the first worker.
    gc.disable()
    try:
        from ddplaunch.cli import main as cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli()


if __name__ == "__main__":
    main()
