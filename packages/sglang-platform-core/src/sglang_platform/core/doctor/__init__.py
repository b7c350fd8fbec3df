"""What is wrong with an installation, told without reading a plugin's sources: findings with an id and a fix.

    finding            one finding                          examination    all checks, in order
    discovery          metadata, variables, the decision    entry_points   where `pkg.mod:attribute` leads
    isolation          importable from this place only      host_answers   what a running SGLang answers

`sglang-platform-devtools` adds the checks that read sources, through the entry-point group `sglang_platform.doctor`.
"""
