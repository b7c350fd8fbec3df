"""The newer release."""

from dataclasses import dataclass

PAGE = 64


@dataclass
class Result:
    value: int
    key: str = ""


class Base:
    def __init__(self, size, page_size):
        self.size = size
        self.slots: Allocator = Allocator(size)

    def store(self, layer, loc_info, k, v, *, scale=None):
        """Another parameter, and one of another name."""

    def describe(self) -> tuple[int, int, int]:
        return self.size, 1, 2

    def close(self):
        raise NotImplementedError


class Allocator:
    def __init__(self, size):
        self.free_pages = size

    def alloc(self, need_size):
        return need_size, self.free_pages, True


class Store:
    def put(self, key):
        raise NotImplementedError

    def peek(self, key):
        raise NotImplementedError

    def drop(self, key):
        raise NotImplementedError


class PagedStore(Store):
    def put(self, key):
        return key

    def drop(self, key):
        return key


def tally(batch):
    return batch, 1, 2


def pair(batch):
    return batch, 1


def sweep(batch):
    return batch


async def split(batch):
    return batch, 1


def helper(two, one):
    return one + two


def same(one):
    return one


def write(pool, layer):
    pool.store(layer, 1, 2, 3, scale=4)


def calls_it(x):
    other = helper(x, x)
    return other, sweep(x)
