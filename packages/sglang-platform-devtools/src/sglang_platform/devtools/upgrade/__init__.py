"""The effects of a host upgrade on a plugin, read from sources alone: neither is imported or run.

wheels      a release by version, folder, wheel     release     one release of the host, read
members     what a class of it has, instances too   sides       the same class, field or function in two releases
naming      what a plugin's names stand for         types       which class of the host an expression is of
coupling    one place that depends on the host      reader      all of them in a plugin
functions   those in a function's body              texts       variables, flags and names written as texts
compare     what changed for each                   shapes      how signatures and values differ
tables      what a release reads and knows by text  rows        the report's rows
report      rows as text and JSON                   page        the same as one HTML page
"""
