"""Refuses calls of the host's kernels with arguments that the contract does not have, instead of ignoring them."""

from __future__ import annotations

from typing import Any

__all__ = ["only_without"]

# Arguments that affect how the host's own kernel runs, not its result.
_NO_MATTER = frozenset({"pad_slot_id", "metadata", "validate_data", "cache_steps"})


def only_without(kernel: str, positional: tuple[Any, ...] = (), /, **asked: Any) -> None:
    """Raise NotImplementedError where one of `asked` is neither None nor False, or `positional` is not empty."""
    found = ["more positional arguments"] if positional else []
    found += [
        name
        for name, value in asked.items()
        if value is not None and value is not False and name not in _NO_MATTER
    ]
    if found:
        raise NotImplementedError(
            f"{kernel} is asked with {', '.join(found)}, which serve speculative decoding or multi-item scoring of "
            "layers with states; off Triton these are not served: leave out the argument that asks for them"
        )
