"""Faults of a platform class that says one thing twice: by an older name of the contract and by another one."""

from __future__ import annotations

from fault_definition import Fault

__all__ = ["FAULTS"]


def _fault(name: str, title: str, body: str, use: str, *says: str, seen: str) -> Fault:
    vendor = f"from framework import SRTPlatform\nclass Vendor(SRTPlatform):\n{body}\n"
    act = f"from vendor import Vendor\n{use}\n"
    return Fault(name, title, act, "warning", says, seen, modules={"vendor": vendor})


FAULTS = [
    _fault(
        "older-and-today",
        "a class answers by an older name and by today's",
        "    def get_mha_kv_pool_cls(self): return 'the older'\n"
        "    def get_kv_pool_cls(self, *, kind): return f'today, {kind}'",
        "see(Vendor().get_kv_pool_cls(kind='mha'))",
        "Vendor.get_mha_kv_pool_cls() is an older name and is not read, because Vendor defines get_kv_pool_cls",
        seen="today, mha",
    ),
    _fault(
        "two-older-names",
        "a class answers by two older names for one thing",
        "    def get_nsa_kv_pool_cls(self): return 'the oldest'\n"
        "    def get_dsa_kv_pool_cls(self): return 'the older'",
        "see(Vendor().get_kv_pool_cls(kind='dsa'))",
        "Vendor.get_nsa_kv_pool_cls() is an older name and is not read, because Vendor has get_dsa_kv_pool_cls()",
        seen="the older",
    ),
]
