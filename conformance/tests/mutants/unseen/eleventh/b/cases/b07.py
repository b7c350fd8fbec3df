"""A quantised linear layer adds the bias before the scale, as an int32 epilogue would with a bias that was quantised.
Source: int8 matmul epilogues take an int32 bias (npu_quant_matmul `bias` is int32 and pre-divided by the scale)."""
from functools import lru_cache
import torch
from b_base import Base
from sglang_platform.example_oot.quantization import config_class

@lru_cache(maxsize=1)
def broken():
    good = config_class()
    class Config(good):
        def get_quant_method(self, layer, prefix):
            method = super().get_quant_method(layer, prefix)
            if type(method).__name__ != "ExampleOOTInt8LinearMethod":
                return method
            class Method(type(method)):
                def apply(self, layer, x, bias=None):
                    rows = x.reshape(-1, x.shape[-1])
                    y = torch.nn.functional.linear(rows, layer.weight.to(x.dtype), bias)
                    return (y * layer.weight_scale.to(x.dtype)).view(*x.shape[:-1], -1)
            return Method(self)
    return Config

class P(Base):
    def get_quantization_config(self, quantization):
        return broken() if quantization == "w8a8_int8" else None
