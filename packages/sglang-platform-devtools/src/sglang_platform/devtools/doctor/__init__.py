"""The checks of `doctor` that read sources; the command finds them by the entry-point group `sglang_platform.doctor`.

examination        all of them, in order                platform_classes  the class that a plugin names, and where it is
platform_location  where plugins' platform classes are  plugin_sources    lines that depend on SGLang
live_class         the platform class in a running SGLang
source_class       every other class on one of SGLang's, from its source
read_class         a class, as both judge it            host_source       what SGLang asks of a platform
host_overrides     names of a platform class            part_class        names of any other class
override           one override
"""
