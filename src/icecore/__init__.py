"""icecore: what can a random transformer already do?"""

__version__ = "0.1.0"
