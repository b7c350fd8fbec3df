"""Faults of the class a vendor writes: what the contract refuses when the class is created."""

from __future__ import annotations

import textwrap

from fault_definition import Fault

__all__ = ["FAULTS"]

BREAKS = "act.Vendor breaks the platform contract (SRTPlatform) in one place"


def _class(name: str, title: str, body: str, use: str, *says: str, not_in_host: str | None = None) -> Fault:
    """`use` is how an engine would come to notice."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    act = f"from framework import SRTPlatform\nclass Vendor(SRTPlatform):\n{lines}\n{use}\n"
    return Fault(name, title, act, "ContractError", (*says, BREAKS), not_in_host=not_in_host)


FAULTS = [
    _class(
        "unknown-name",
        "an override is misspelt",
        "def get_graph_runner_class(self): return object",
        'see(f"get_graph_runner_cls() answers {Vendor().get_graph_runner_cls()}")',
        "get_graph_runner_class is not a name of the contract, did you mean get_graph_runner_cls?",
        "act.py:3",
    ),
    _class(
        "lost-parameter",
        "an override lost a parameter",
        "def get_device_name(self): return 'dev'",
        "Vendor().get_device_name(0)",
        "get_device_name lost parameter 'device_id'; the contract has get_device_name(device_id=0)",
    ),
    _class(
        "new-parameter",
        "an override requires another parameter",
        "def init_backend(self, rank): ...",
        "Vendor().init_backend()",
        "init_backend requires a new parameter 'rank'; the contract has init_backend()",
    ),
    _class(
        "renamed-parameter",
        "an override renames a parameter",
        "def get_device_name(self, index=0): return 'dev'",
        "Vendor().get_device_name(device_id=0)",
        "get_device_name renames parameter 'device_id' to 'index'",
    ),
    _class(
        "default-lost",
        "an override makes an optional parameter required",
        "def get_device_name(self, device_id): return 'dev'",
        "Vendor().get_device_name()",
        "get_device_name makes parameter 'device_id' required",
    ),
    _class(
        "value-for-method",
        "a value stands where the contract has a method",
        "get_dispatch_key_name = 'cuda'",
        "Vendor().get_dispatch_key_name()",
        "get_dispatch_key_name is the value 'cuda'; the contract calls get_dispatch_key_name()",
    ),
    _class(
        "class-for-method",
        "a class stands where the contract has a method that returns one",
        "class get_graph_runner_cls: ...",
        "see(f'get_graph_runner_cls() gives a class: {isinstance(Vendor().get_graph_runner_cls(), type)}')",
        "get_graph_runner_cls is the class Vendor.get_graph_runner_cls; the contract calls",
    ),
    _class(
        "method-for-value",
        "a method stands where the contract has an attribute",
        "def device_name(self): return 'dev'",
        "see(f'device_name is a {type(Vendor().device_name).__name__}')",
        "device_name is a method; the contract reads it as an attribute",
    ),
    _class(
        "async-override",
        "an override is async",
        "async def init_backend(self): ...",
        "started = Vendor().init_backend(); see(f'init_backend() gives a {type(started).__name__}'); started.close()",
        "init_backend is async; the contract calls it without await: write a plain method",
    ),
    _class(
        "method-for-classmethod",
        "an instance method stands where the contract calls on the class",
        "def seed_everything(self, seed=None): see(f'seeded with {seed}')",
        "Vendor.seed_everything(42)",
        "seed_everything is an instance method; the contract calls it on the class: make it a classmethod",
    ),
    _class(
        "identity-is-text",
        "the platform's identity is a string",
        "_enum = 'OOT'",
        "see(f'is_out_of_tree() answers {Vendor().is_out_of_tree()}')",
        "_enum is 'OOT', not a member of PlatformEnum",
        "so every is_*() would answer False",
    ),
    _class(
        "device-with-index",
        "the device type carries an index",
        "device_type = 'cuda:0'",
        "see(f'the device type is {Vendor().device_type!r}')",
        "device_type is 'cuda:0': a device type carries no index",
    ),
    _class(
        "capabilities-dict",
        "the capabilities are a dict",
        "capabilities = {'graph_capture': True}",
        "Vendor().capabilities.graph_capture",
        "capabilities is {'graph_capture': True}, not a PlatformCapabilities instance",
    ),
    _class(
        "feature-misspelt",
        "an attention feature is misspelt",
        "attention_features = {'sliding_windows'}",
        "see('accepted')",
        "did you mean 'sliding_window'?",
        "attention_features holds 'sliding_windows', which is none of",
        not_in_host="no declared features",
    ),
    Fault(
        "mixin-behind",
        "a mixin stands behind the base class, so that its methods are never reached",
        "from framework import SRTPlatform\n"
        "class Mixin:\n    def get_dispatch_key_name(self): return 'dev'\n"
        "class Vendor(SRTPlatform, Mixin): ...\nsee(Vendor().get_dispatch_key_name())\n",
        "ContractError",
        (
            "Mixin.get_dispatch_key_name is never reached: SRTPlatform defines it too and stands before it",
            "put Mixin first in the bases of Vendor",
            BREAKS,
        ),
    ),
]
