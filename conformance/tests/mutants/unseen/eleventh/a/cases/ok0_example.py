"""The unbroken example."""
from base import WithParts


class Platform(WithParts):
    pass
