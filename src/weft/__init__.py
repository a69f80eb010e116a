"""Weft: a lightweight event mesh for Python and Spark teams."""

__version__ = "0.1.0"
