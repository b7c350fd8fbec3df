"""How a platform's parts are built, by host: on core's own base classes, or as SGLang builds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sglang_platform.conformance.subject import Subject

__all__ = ["Parts", "parts_for"]


class Parts(Protocol):
    """What differs between the hosts. Each method is documented at its caller in `Subject`."""

    def platform(self) -> Any: ...

    def request_table(self, size: int, max_context_len: int) -> Any: ...

    def allocator(self, size: int, page_size: int, pool: Any, need_sort: bool, dtype: Any) -> Any: ...

    def attention_factory(self, name: str | None) -> Callable[[Any], Any] | None: ...

    def model_runner(self, pool: Any, table: Any, more: Mapping[str, Any]) -> Any: ...

    def attention_layer(self, fields: Mapping[str, Any]) -> Any: ...

    def forward_batch(self, mode: str, fields: Mapping[str, Any]) -> Any: ...


def parts_for(subject: Subject) -> Parts:
    """The parts of the subject's host."""
    if subject.host == "sglang":
        from sglang_platform.conformance.parts.sglang import SGLangParts

        return SGLangParts(subject)
    from sglang_platform.conformance.parts.core import CoreParts

    return CoreParts(subject)
