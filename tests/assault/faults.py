def faults(*a):
    return iter(())
