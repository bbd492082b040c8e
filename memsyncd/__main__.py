#!/usr/bin/env python3
"""The program `memsyncd`, as it is installed, and `python -m memsyncd`: the command line."""

import sys

from memsyncd.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
