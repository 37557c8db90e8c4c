"""`python -m icecore` is `icecore`."""

import sys


def run() -> None:
    try:
        from icecore.cli import main  # takes a while, in which Ctrl-C may come

        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
