"""Lists of runs that together answer a question."""
