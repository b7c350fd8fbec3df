"""Applies the plugins' hooks in the diffusion runtime; fails where a hook's target is missing."""

from sglang.multimodal_gen.runtime.platforms.plugins import apply_plugin_hooks

apply_plugin_hooks()
