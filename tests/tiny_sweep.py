"""icecore's command line, whose laptop scale is two tiny tasks: sweeps of seconds, for tests that kill them."""

import sys

from icecore.cli import main
from icecore.paper import table2
from icecore.sweeps import laptop
from icecore.sweeps.laptop import LaptopRecipe, Training
from icecore.tasks import ModularAddition, Needle

table2.NUMBERS.clear()  # the paper's are of four tasks
SHORT = Training(steps=60, lr=1e-2)
laptop.RECIPES = (
    LaptopRecipe(ModularAddition(modulus=11), 32, SHORT, SHORT, SHORT, SHORT, SHORT),
    LaptopRecipe(Needle(max_pairs=2, values=9, vocabulary=20, test_size=20), 16, SHORT, SHORT, SHORT, SHORT, SHORT),
)
table2.FOUR = ("modular-addition", "needle")
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
