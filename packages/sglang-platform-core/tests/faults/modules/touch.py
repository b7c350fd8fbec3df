"""Touches the current platform from a module of its own."""


def touched():
    from framework import current_platform

    _ = current_platform.device_name
    return current_platform


def platform_plugin(activate):
    return activate
