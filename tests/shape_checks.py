"""The type checker of ICECORE_CHECK_SHAPES=1: beartype, for which an int is a float too."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
