"""Drawing with matplotlib, which is imported nowhere else."""
