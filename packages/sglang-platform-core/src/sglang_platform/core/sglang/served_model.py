"""The model that this worker serves, which the predicates of the registries take as input."""

from __future__ import annotations

from typing import Any, NamedTuple

from sglang_platform.core.hooks.registry import HookType
from sglang_platform.core.sglang.host_classes import MODEL_RUNNER, load
from sglang_platform.core.sglang.registration import LaunchSettings, check_launch, required, soft
from sglang_platform.core.sglang.versions import facts

__all__ = ["ServedModel", "register_hooks", "resolved", "served_model"]


class ServedModel(NamedTuple):
    """The inputs of SGLang's model runner; None before it is built. `server_args` has the resolved values."""

    model_config: Any = None
    server_args: Any = None
    model_class: type | None = None


_served = ServedModel()


def served_model() -> ServedModel:
    """The model of this worker's latest model runner (a draft model's runner comes after the target's)."""
    return _served


def register_hooks() -> None:
    required(
        f"{MODEL_RUNNER}.__init__", _note_arguments, HookType.BEFORE,
        without="no part of the platform is told which model and arguments are served",
    )  # fmt: skip
    soft(
        f"{MODEL_RUNNER}.load_model", _note_class, HookType.AFTER,
        without="request coordinators that ask for the model's class are not made",
    )  # fmt: skip


def _note_arguments(runner: Any, *args: Any, **kwargs: Any) -> None:
    global _served
    model_config = kwargs.get("model_config", args[0] if args else None)
    server_args = kwargs.get("server_args", next((a for a in args if type(a).__name__ == "ServerArgs"), None))
    _served = ServedModel(model_config, resolved(server_args))
    check_launch(LaunchSettings(_served.server_args, model_config))


def _note_class(result: Any, runner: Any, *args: Any, **kwargs: Any) -> None:
    global _served
    _served = _served._replace(model_class=type(runner.model))


def resolved(server_args: Any) -> Any:
    """The server arguments as SGLang resolved them; in newer releases a view of the record."""
    view = facts().resolved_view
    return server_args if server_args is None or view is None else load(view)(server_args)
