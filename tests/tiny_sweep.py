"""icecore's command line, whose laptop scale is two tiny tasks: sweeps of seconds, for tests that kill them."""

import sys

from icecore.cli import main
from icecore.reporting import claims
from icecore.sweeps import demo, paper
from icecore.tasks import ModularAddition, Needle

claims.NUMBERS = {}  # the paper's are of four tasks
demo.SIZES = (
    demo.Size(ModularAddition(modulus=11), 32, 1e-2, random_steps=60, normal_steps=60),
    demo.Size(Needle(max_pairs=2, values=9, vocabulary=20, test_size=20), 16, 1e-2, random_steps=60, normal_steps=60),
)
paper.FOUR = ("modular-addition", "needle")
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
