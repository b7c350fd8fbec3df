"""What is wrong with an installation: findings with a severity, a stable id and a fix. `doctor` prints them.

    finding            one finding                          examination       all checks, in order
    isolation          importable from this place only      class_shape       a class rebuilt from its source
    platform_location  where plugins' platform classes are  platform_classes  each class by the rules of its base
    host_source        what SGLang's source asks for        core_overrides    classes on this project's contract
    host_overrides     classes on SGLang's own base         hook_targets      hooks whose target does not exist
    host_answers       what a running SGLang answers, asked by `sglang.evidence.platform_probe` in a process of its own

The checks of discovery itself are in `discovery`. Nothing here imports torch, sglang or a plugin's device library.
"""
