from mutant_platform.platform import Device

from sglang_platform.core import MMPlatform, PlatformEnum, mm_platform_plugin  # noqa: F401 - a mutant names it


@mm_platform_plugin
def activate():
    return "mutant_platform.mm:Platform"


class Platform(MMPlatform, Device):
    dispatch_key = "CPU"

    def get_attn_backend_cls_str(self, selected_backend, head_size, dtype):
        if selected_backend is None:
            return "mutant_platform.mm_attention.Attention"
        return super().get_attn_backend_cls_str(selected_backend, head_size, dtype)
