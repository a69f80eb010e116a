"""Events that wait for their time: what is due, and when to look again."""

from weft.core.later.due import Due, DueIndex

__all__ = ["Due", "DueIndex"]
