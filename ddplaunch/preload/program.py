"""program.py DESCRIPTOR PADDING: the preloader, a process that imports once and forks every worker of a node.

Run by its path, so that it is found wherever the launcher was. The padding is room for the names that
ps(1) shows: see title.py.
"""

import os
import sys

if __name__ == "__main__":
    _ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path.insert(0, _ROOT)
    from ddplaunch.preload.process import main

    sys.path.remove(_ROOT)
    main(int(sys.argv[1]))
