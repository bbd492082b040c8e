#!/usr/bin/env python3
"""The program `memsyncd`, as it is installed, and `python -m memsyncd`: the command line."""

# Python compiles an installed script at each start, so all other code is in modules.
if __name__ == "__main__":
    try:
        from memsyncd.cli.main import leave, main

        leave(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
