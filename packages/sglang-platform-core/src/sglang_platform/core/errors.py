"""Every error a user of sglang-platform can meet.

All share one message format, so that a log line answers the same four questions each time::

    <what happened>
      plugin: <entry-point name> (<distribution> <version>)
      why:    <the cause>
      fix:    <what to do>

Lines that have nothing to say are left out. Each field is also an attribute, for programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sglang_platform.core.correction import place_in_plugin

__all__ = [
    "ConfigurationError",
    "ContractError",
    "ContractVersionError",
    "DuplicatePlugins",
    "HookError",
    "HookSignatureError",
    "HookTargetError",
    "HostError",
    "LaunchRefused",
    "NotAPlatformClass",
    "PlatformError",
    "PlatformUnavailable",
    "PluginEnded",
    "PluginFailed",
    "PluginNotFound",
    "PluginOrigin",
    "ReentrantResolution",
    "SeveralPlatforms",
    "cause_chain",
    "explain",
    "visible",
]

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    """`text` safe for a terminal: control characters and surrogates are escaped.

    Names of files and distributions may hold either.
    """
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode("utf-8")


def cause_chain(error: BaseException) -> Iterator[BaseException]:
    """`error`, what caused it, what caused that, ... to the first cause."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or hidden


class PluginOrigin(NamedTuple):
    """Where a plugin comes from: its entry-point name and the distribution that carries it."""

    name: str
    distribution: str | None = None
    version: str | None = None

    def __str__(self) -> str:
        if self.distribution is None:
            return self.name
        version = f" {self.version}" if self.version else ""
        return f"{self.name} ({self.distribution}{version})"


class _Explained(BaseException):
    """The four-part message, shared by the exceptions and by `LaunchRefused`."""

    def __init__(
        self,
        what: str,
        *,
        plugin: PluginOrigin | None = None,
        why: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.what, self.plugin, self.why, self.fix = what, plugin, why, fix
        lines = [what]
        for label, text in (("plugin:", plugin), ("why:", why), ("fix:", fix)):
            if text is not None and str(text):
                body = str(text).replace("\n", "\n          ")
                lines.append(f"  {label:<7} {body}")
        super().__init__(visible("\n".join(lines)))


class PlatformError(_Explained, RuntimeError):
    """Base of every error this project raises on purpose. A RuntimeError, like SGLang's errors."""


class PlatformUnavailable(Exception):
    """Raised by an `activate()` to decline with a reason, e.g. ``PlatformUnavailable("no /dev/kfd")``.

    It is an answer, not a failure: discovery goes on and keeps the reason for `list --explain`. fix: what to
    do if the device is present but the installed software does not fit it. `doctor` reports that as a problem.
    """

    def __init__(self, reason: str, *, fix: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


class ConfigurationError(PlatformError):
    """An environment variable or option has a value that cannot be used."""


class PluginNotFound(ConfigurationError):
    """The named plugin is not installed; the message offers what is, and the nearest spelling."""


class PluginFailed(PlatformError):
    """A plugin could not be imported, raised, or answered with something unusable."""


class PluginEnded(PluginFailed):
    """A plugin ended the process that asked it, or did not come back. No setting lets a launch go on after that."""


class NotAPlatformClass(PluginFailed, TypeError):
    """The object that a plugin names is not a platform class. A TypeError, as in SGLang."""


class DuplicatePlugins(PlatformError):
    """Two distributions register one entry-point name in one group."""


class SeveralPlatforms(PlatformError):
    """More than one platform is active and none was named."""


class ReentrantResolution(PlatformError):
    """A plugin touched `current_platform` while it was being resolved."""


class ContractVersionError(PlatformError):
    """A plugin was built for a contract version that this core does not speak."""


class ContractError(PlatformError, TypeError):
    """A class breaks the contract; raised when the class is created, listing every problem."""


class HookError(PlatformError):
    """A hook cannot be registered or applied."""


class HookTargetError(HookError):
    """A required hook's target does not exist."""


class HookSignatureError(HookError, TypeError):
    """A hook cannot take the arguments of its target."""


class HostError(PlatformError):
    """The host (SGLang) cannot do what the platform needs, or its version is not supported."""


class LaunchRefused(_Explained, SystemExit):
    """Stops a host process. Not an `Exception`, because the host's plugin loader swallows those.

    As a `SystemExit` whose code is the message it prints the message and ends with status 1.
    """

    @classmethod
    def because(cls, error: PlatformError) -> LaunchRefused:
        """The same message as `error`, in a form that no `except Exception` can swallow."""
        return cls(error.what, plugin=error.plugin, why=error.why, fix=error.fix)


def explain(error: BaseException) -> str:
    """The error and its first cause, each with its location: an import error often hides the real error."""
    chain = list(cause_chain(error))
    text = _one(error)
    if len(chain) > 1:
        text += f"\nfirst cause: {_one(chain[-1])}"
    return text


def _one(error: BaseException) -> str:
    if isinstance(error, PlatformError | LaunchRefused):
        return f"{type(error).__name__}: {error.what}" + (f" ({error.why})" if error.why else "")
    message = " ".join(_words(error).split())
    place = _place(error)
    return f"{type(error).__name__}: {message}" + (f" (at {place})" if place else "")


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as second:  # noqa: BLE001  (a foreign exception's own code)
        return f"(its text cannot be had: __str__ raises {type(second).__name__})"


def _place(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    place = place_in_plugin(error)
    traceback = error.__traceback__ if place is None else None
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        own = module.startswith(("importlib", "_frozen_importlib", "sglang_platform.core.discovery"))
        if not own and not traceback.tb_frame.f_code.co_filename.startswith("<frozen"):
            place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
