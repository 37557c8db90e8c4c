"""icecore's command line, whose laptop scale is two tiny tasks: sweeps of seconds, for tests that kill them."""

import sys

from icecore.cli import main
from icecore.reporting import claims
from icecore.sweeps import laptop, paper, variations
from icecore.sweeps.laptop import Size, Training
from icecore.tasks import ModularAddition, Needle

claims.NUMBERS = {}  # the paper's are of four tasks
SHORT = Training(steps=60, lr=1e-2)
laptop.SIZES = (
    Size(ModularAddition(modulus=11), 32, SHORT, SHORT, SHORT, SHORT, SHORT),
    Size(Needle(max_pairs=2, values=9, vocabulary=20, test_size=20), 16, SHORT, SHORT, SHORT, SHORT, SHORT),
)
paper.FOUR = variations.FOUR = ("modular-addition", "needle")
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
