"""Faults of processes that are forked from one that has its platform, or is about to have it."""

from __future__ import annotations

from fault_definition import chosen_fault, platform

__all__ = ["FAULTS"]

CHILD = """
import os
from touch import touched
def in_a_fork():
    '''The platform of a forked process, or that it never had one.'''
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        import signal
        signal.alarm(10)
        os.write(tell, touched().device_name.encode())
        os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    return os.read(told, 100).decode() or "never had"
"""

FAULTS = [
    chosen_fault(
        "forked-after-choice",
        "a process that has its platform is forked",
        "right",
        act=CHILD + "first = touched().device_name\nsee(f'{first}, and in the fork {in_a_fork()}')\n",
        seen="dev, and in the fork dev",
        distributions=(platform("dev"),),
    ),
    chosen_fault(
        "forked-during-choice",
        "a process is forked while another of its threads is in `activate()`",
        "right",
        act=CHILD
        + "import threading, asked\n"
        + "one = threading.Thread(target=touched)\none.start()\n"
        + "asked.begun.wait()\nsee(f'in the fork {in_a_fork()}')\nasked.go_on.set()\none.join()\nchosen()\n",
        seen="in the fork dev; the platform 'dev'",
        modules={
            "asked": "import os, threading\nbegun, go_on, process = threading.Event(), threading.Event(), os.getpid()\n"
        },
        distributions=(
            platform(
                "dev",
                "begun.set()\nif os.getpid() == process:\n    go_on.wait()\nreturn 'dev_cls:Platform'",
                head="import os\nfrom asked import begun, go_on, process\n",
            ),
        ),
    ),
]
