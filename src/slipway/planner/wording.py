"""Words of messages that depend on numbers."""


def counted(count: int, noun: str) -> str:
    """ "1 replica", "2 replicas" """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
