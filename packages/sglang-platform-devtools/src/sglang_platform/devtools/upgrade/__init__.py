"""The effects of a host upgrade on a plugin, read from sources alone: neither is imported or run.

wheels      a release by version, folder, wheel     release     one release of the host, read
members     what a class of it has, instances too   own         the plugin's classes, on those of the host
naming      what a plugin's names stand for         types       which class of the host an expression is of
coupling    one place that depends on the host      reader      all of them in a plugin
functions   those in a function's body              texts       variables, flags and names written as texts
seen        how one release writes it, and fits it  shapes      signatures, kinds and values of definitions
readings    what a release reads and knows by text  sides       the same class or name in two releases
compare     what changed for each                   rows        the report's rows
report      rows as text
"""
