"""Basalt's int8 layers in SGLang's table."""


def patch_quantization():
    from sglang.srt.layers.quantization import QUANTIZATION_METHODS
    from sglang.srt.layers.quantization.w8a8_int8 import W8A8Int8Config

    class BasaltInt8Config(W8A8Int8Config):
        def get_name(self):
            return "basalt_int8"

    QUANTIZATION_METHODS["basalt_int8"] = BasaltInt8Config
