"""The uuid is made of the index among the visible devices: under reindex_device_id two workers have one uuid.
Source: ASCEND_RT_VISIBLE_DEVICES numbering; checkpoint_engine_worker.py:118, entrypoints/engine.py:835 key by it."""
import platform
from contextlib import contextmanager
import os
from b_base import Base
from sglang_platform.core.portable.torch.visibility import only_device

class P(Base):
    @contextmanager
    def reindex_device_id(self, device_id):
        before = os.environ.get("SGLANG_EXAMPLE_OOT_DEVICES")
        with only_device(device_id, ("ACME_VISIBLE_DEVICES",), "ACME_VISIBLE_DEVICES") as index:
            os.environ["SGLANG_EXAMPLE_OOT_DEVICES"] = "1"
            try:
                yield index
            finally:
                if before is None:
                    os.environ.pop("SGLANG_EXAMPLE_OOT_DEVICES", None)
                else:
                    os.environ["SGLANG_EXAMPLE_OOT_DEVICES"] = before

    def get_device_uuid(self, device_id=0):
        return f"acme-{platform.node()}-{device_id}"
