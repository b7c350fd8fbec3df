"""A platform whose diffusion attention scales scores twice; `../test_diffusion.py` installs it."""

from sglang_platform.core import mm_platform_plugin
from sglang_platform.example_oot.diffusion.attention import ExampleOOTDiffusionAttention
from sglang_platform.example_oot.diffusion.platform import ExampleOOTDiffusionPlatform


@mm_platform_plugin
def activate():
    return "wrong_scale:Platform"


class Attention(ExampleOOTDiffusionAttention):
    def forward(self, query, key, value, attn_metadata):
        return super().forward(query * 2, key, value, attn_metadata)


class Platform(ExampleOOTDiffusionPlatform):
    def get_attn_backend_cls_str(self, selected_backend, head_size, dtype):
        return "wrong_scale.Attention"
