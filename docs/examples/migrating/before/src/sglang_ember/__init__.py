"""Ember for SGLang 0.5.23, on SGLang's own classes."""

import os


def activate():
    if not os.environ.get("EMBER_VISIBLE_DEVICES"):
        return None
    return "sglang_ember.platform.EmberPlatform"
