"""The default LoRA backend has a near name, which SGLang does not know (lora_registry.py:61).
Source: SGLang's attention backend is `torch_native`, vendors write `torch`."""
from b_base import Base

class P(Base):
    def get_default_lora_backend(self):
        return "torch"
