"""empty_cache() does nothing: what a model or a released cache held stays reserved.
Source: early torch_musa/torch_mlu wrappers; SGLang asks after loading and at flushes (scheduler.py:5534, loader.py:2924)."""
import gc
from b_base import Base

class P(Base):
    def empty_cache(self):
        gc.collect()
