"""A wrapper that changes nothing: it counts what goes through it and logs each layer's first call."""

from __future__ import annotations

import logging
from typing import Any

from sglang_platform.core import counter
from sglang_platform.core.registries import QuantMethodWrapper, is_wrapped

_logger = logging.getLogger(__name__)
_calls = counter("registries_plugin.call_log.calls")
_around_int8 = counter("registries_plugin.call_log.around_int8")


class CallLog(QuantMethodWrapper):
    _quant_wrapper_id = "call_log"

    def __init__(self, inner: Any, layer: Any) -> None:
        super().__init__(inner)
        self.layer_id = getattr(layer, "layer_id", None)
        self.seen = False
        # Priority 10 wrapped before this one did, whichever was registered first.
        _around_int8.add(is_wrapped(inner, "int8_experts"))

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        _calls.add()
        if not self.seen:
            self.seen = True
            _logger.info("experts of layer %s called for the first time", self.layer_id)
        return self.inner.apply(*args, **kwargs)
