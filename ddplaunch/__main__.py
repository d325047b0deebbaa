"""`ddplaunch` and `python -m ddplaunch`."""

import gc


def main() -> None:
    # Start-up makes objects and no garbage; looking for it costs a tenth of the time to the first worker.
    gc.disable()
    from ddplaunch.cli import main as cli

    cli()


if __name__ == "__main__":
    main()
