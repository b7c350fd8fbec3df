"""The levels of the suite, from what is cheapest to know to what needs most of the machine."""

from __future__ import annotations

import enum

__all__ = ["Level"]


class Level(enum.IntEnum):
    """Each level assumes what the ones before it prove."""

    PACKAGING = 1
    CONTRACT = 2
    MEMORY = 3
    KERNELS = 4
    GRAPHS = 5
    PROCESSES = 6
    HOST = 7
    DISTRIBUTED = 8
    FEATURES = 9
    KITS = 10

    @property
    def on_request(self) -> bool:
        """Whether it runs only where it is named: it starts many engines, and takes many minutes."""
        return self in (Level.FEATURES, Level.KITS)

    @property
    def label(self) -> str:
        """The name as it is written on the command line and at the front of check ids."""
        return self.name.lower()

    @property
    def proves(self) -> str:
        """What a platform that passes the level can be trusted with."""
        return _PROVES[self]

    @classmethod
    def parse(cls, text: str) -> Level:
        """The level of this number or name. Raises ValueError that lists them."""
        key = text.strip().lower()
        for level in cls:
            if key in (str(int(level)), level.label):
                return level
        known = ", ".join(f"{int(level)} {level.label}" for level in cls)
        raise ValueError(f"{text!r} is no level; the levels are {known}")


_PROVES = {
    Level.PACKAGING: "the plugin is found, asked and imported without side effects",
    Level.CONTRACT: "names, signatures and answers are those the host calls and expects",
    Level.MEMORY: "the KV cache keeps what is stored, and no slot belongs to two requests",
    Level.KERNELS: "attention and fused ops compute what they should",
    Level.GRAPHS: "a replayed graph computes what the eager model computes",
    Level.PROCESSES: "every process of the host gets the same platform and hooks",
    Level.HOST: "SGLang serves a model on it, with the platform's own parts",
    Level.DISTRIBUTED: "collectives between ranks give the right answer",
    Level.FEATURES: "each feature of SGLang is served, or refused before launch in words",
    Level.KITS: "SGLang's own tests pass on it as they do on SGLang's own devices",
}
