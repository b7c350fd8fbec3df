"""The plugin's switches: environment variables, all off by default, read once when the plugin is registered."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sglang_platform.core.errors import ConfigurationError

__all__ = ["Switches"]


@dataclass(frozen=True)
class Switches:
    """model: `DSV4_MODEL=1`, the architecture; it asks for the coordinator by its name.
    mxfp4: `DSV4_MXFP4=1`, experts in MXFP4.
    host_experts: `DSV4_HOST_EXPERTS=N`, the last N experts of each layer are kept in host memory.
    token_pool: `DSV4_TOKEN_POOL=1`, the pool of a kind of its own.
    hot_pages: `DSV4_HOT_PAGES=N`, that pool with N pages on the device and the others behind in host memory.
    events: `DSV4_EVENTS=1`, the follower of lifecycle events, which brings the pages of a batch to the device.
    """

    model: bool = False
    mxfp4: bool = False
    host_experts: int = 0
    token_pool: bool = False
    hot_pages: int = 0
    events: bool = False

    @classmethod
    def read(cls) -> Switches:
        """As the environment has them. Raises ConfigurationError for a value that is none."""
        return cls(
            model=_flag("DSV4_MODEL"),
            mxfp4=_flag("DSV4_MXFP4"),
            host_experts=_number("DSV4_HOST_EXPERTS"),
            token_pool=_flag("DSV4_TOKEN_POOL"),
            hot_pages=_number("DSV4_HOT_PAGES"),
            events=_flag("DSV4_EVENTS"),
        )


def _number(name: str) -> int:
    text = os.environ.get(name, "0").strip() or "0"
    if not text.isdecimal():
        raise ConfigurationError(f"{name}={text} is no number", why="it counts from 0, which is off")
    return int(text)


def _flag(name: str) -> bool:
    number = _number(name)
    if number > 1:
        raise ConfigurationError(f"{name}={number} is neither 0 nor 1", why="it is a switch, off by default")
    return number == 1
