"""A page for each level, with a section for each check: what it asks, why, its cases, tolerance, mistakes, fix.

record  what is known of a check, from the check itself and `why.toml`      text  the same as Markdown
"""
