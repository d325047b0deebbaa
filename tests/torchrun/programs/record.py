"""As torchrun's documentation has it: an error file by @record."""

import os

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main() -> None:
    if os.environ["RANK"] == "1":
        raise ValueError("boom in rank 1")
    import time

    time.sleep(60)


if __name__ == "__main__":
    main()
