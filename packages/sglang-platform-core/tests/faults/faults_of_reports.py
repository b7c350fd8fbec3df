"""Faults of the folder that a process reports into."""

from __future__ import annotations

from fault_definition import Fault

__all__ = ["FAULTS"]

COUNT = "from framework import counter\ncounter('mine.calls').add()\nsee('counted')\n"


def _fault(name: str, title: str, folder: str, ends: str, *says: str, **rest: object) -> Fault:
    act = str(rest.pop("act", COUNT))
    return Fault(
        name,
        title,
        act,
        ends,
        says,
        environment={"SGLANG_PLATFORM_REPORT_DIR": folder},
        not_in_host="no such variable",
        **rest,  # type: ignore[arg-type]
    )


FAULTS = [
    _fault(
        "report-folder-file",
        "`SGLANG_PLATFORM_REPORT_DIR` is a file",
        "report",
        "ConfigurationError",
        "SGLANG_PLATFORM_REPORT_DIR='report' cannot be written",
        "File exists: 'report'",
        files={"report": b""},
    ),
    _fault(
        "report-folder-read-only",
        "`SGLANG_PLATFORM_REPORT_DIR` is where nobody may write",
        "/sys/report",
        "ConfigurationError",
        "SGLANG_PLATFORM_REPORT_DIR='/sys/report' cannot be written",
    ),
    _fault(
        "report-folder-full",
        "`SGLANG_PLATFORM_REPORT_DIR` takes no more bytes",
        "report",
        "ConfigurationError",
        "SGLANG_PLATFORM_REPORT_DIR='report' cannot be written",
        "File too large",
        act="""
import resource
from framework import counter
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
try:
    counter('mine.calls').add()
finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
""",
    ),
    _fault(
        "report-folder-lost",
        "the folder of `SGLANG_PLATFORM_REPORT_DIR` is a file by the time of a fork",
        "report",
        "warning",
        "SGLANG_PLATFORM_REPORT_DIR='report' cannot be written",
        act="""
import logging, os, pathlib, shutil
from framework import counter
calls = counter('mine.calls')
calls.add()
shutil.rmtree('report')
pathlib.Path('report').touch()
said, told = os.pipe()
if os.fork() == 0:
    calls.add()
    messages = getattr(logging.getLogger().handlers[-1], 'messages', [])
    os.write(told, '\\n'.join(messages).encode() or b'nothing')
    os._exit(0)
os.wait()
logging.getLogger('child').warning(os.read(said, 10000).decode())
see(f'the parent counted {calls.value}')
""",
        seen="the parent counted 1",
    ),
]
