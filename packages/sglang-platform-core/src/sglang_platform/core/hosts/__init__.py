"""Hosts: the engines a platform can be plugged into. Only modules below this folder import one."""
