def command() -> None:
    """x"""
