"""Diagnoses an installation without reading plugin sources; returns findings with an id and a fix.

    finding            one finding                          examination    all checks, in order
    discovery          metadata, variables, the decision    entry_points   where `pkg.mod:attribute` leads

`sglang-platform-devtools` adds the checks that read sources, through the entry-point group `sglang_platform.doctor`.
"""
