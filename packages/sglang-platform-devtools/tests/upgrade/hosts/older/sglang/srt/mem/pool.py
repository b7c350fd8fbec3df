"""The older release."""

from dataclasses import dataclass

PAGE = 16


@dataclass
class Result:
    key: str
    value: int = 0


class Base:
    def __init__(self, size, page_size):
        self.size = size
        self.slots: Allocator = Allocator(size)

    def store(self, layer, loc, k, v):
        """Overridden."""

    def flush(self):
        """Overridden, and gone later."""

    def describe(self) -> tuple[int, int]:
        return self.size, 1


class Allocator:
    def __init__(self, size):
        self.free_pages = size
        self.release_pages = 0

    def alloc(self, need_size):
        return need_size, self.free_pages


class Store:
    def put(self, key):
        raise NotImplementedError


class PagedStore(Store):
    def put(self, key):
        return key


def tally(batch):
    return batch.counts


def pair(batch):
    return batch.counts


def sort(batch):
    return batch


def sweep(batch):
    return batch


def split(batch):
    return batch, 1


def helper(one, two):
    return one + two


def same(one):
    return one


def calls_it(x):
    return helper(x, x), sweep(x)
