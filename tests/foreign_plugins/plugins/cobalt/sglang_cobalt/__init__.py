"""Cobalt changes an SGLang on the CPU by hooks alone."""


def register_plugin():
    from . import arguments, memory, scheduling

    arguments.register()
    memory.register()
    scheduling.register()
