"""Ember for every SGLang that sglang-platform-core supports."""

import os

from sglang_platform.core import PlatformUnavailable, platform_plugin


@platform_plugin
def activate():
    if not os.environ.get("EMBER_VISIBLE_DEVICES"):
        raise PlatformUnavailable("EMBER_VISIBLE_DEVICES names no device")
    return "sglang_ember.platform:EmberPlatform"
