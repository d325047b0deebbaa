"""python -m package.train, as many projects want to be run."""

import os
import sys

from . import __doc__ as text

print("package", os.environ["RANK"], __name__, sys.argv[1:], text)
