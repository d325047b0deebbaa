"""The first attempt never ends; the others do at once."""

import os
import time

from meet import announce_all

announce_all()
if os.environ["DDPLAUNCH_ATTEMPT"] == "0":
    time.sleep(600)
print(f"attempt {os.environ['DDPLAUNCH_ATTEMPT']} done")
