"""Healthy: one distribution, two cards (of which one is here), a general plugin that registers a hook for both."""
import os
from pathlib import Path

from sglang_platform.core import HookRegistry, HookType, PlatformUnavailable, platform_plugin


@platform_plugin
def big_card():
    if not Path("/dev/zero").exists():
        raise PlatformUnavailable("there is no /dev/zero: load the driver")
    return "acme_many.platform:AcmeBigPlatform"


@platform_plugin
def small_card():
    if not Path("/dev/acme-small").exists():
        raise PlatformUnavailable("there is no /dev/acme-small: the small card is not in this machine")
    return "acme_many.platform:AcmeSmallPlatform"


def _count(result, *args, **kwargs):
    return None


def general():
    HookRegistry.register("sglang.srt.layers.sampler:top_p_normalize_probs_torch", _count, HookType.AFTER, required=False,
                          without="calls are not counted")
