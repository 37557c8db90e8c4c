"""`python -m icecore` is `icecore`."""

import sys

from icecore.cli import main

sys.exit(main())
