"""What the rest of the plugin takes from here."""

from sglang.srt.mem.pool import Base as HostBase

__all__ = ["HostBase"]
