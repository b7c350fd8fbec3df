"""The checks of `doctor` that read sources; the command finds them by the entry-point group `sglang_platform.doctor`.

examination        all of them, in order                class_shape       a class rebuilt from its source
platform_location  where plugins' platform classes are  platform_classes  each class by the rules of its base
host_source        what SGLang asks of a platform       core_overrides    classes on this project's contract
host_overrides     classes on SGLang's own base         plugin_sources    parts, and lines that depend on SGLang
live_class         the platform class in a running SGLang
"""
