"""Every kind of callable."""

import abc
import functools


def function(x, y=2):
    "What it does."
    return x + y


function.tag = "kept"


@functools.cache
def cached(x):
    return x + 2


class Parent:
    def inherited(self, x, y=2):
        return x + y

    @classmethod
    def inherited_class(cls, x, y=2):
        return cls.__name__, x + y

    @staticmethod
    def inherited_static(x, y=2):
        return x + y

    @property
    def inherited_property(self):
        return 3


class Class(Parent):
    def method(self, x, y=2):
        return x + y

    @classmethod
    def class_method(cls, x, y=2):
        return cls.__name__, x + y

    @staticmethod
    def static_method(x, y=2):
        return x + y

    @property
    def prop(self):
        "A property."
        return getattr(self, "_prop", 3)

    @prop.setter
    def prop(self, value):
        self._prop = value

    @functools.cached_property
    def cached_prop(self):
        return 3

    part = functools.partialmethod(method, y=2)
    borrowed = len

    def __init__(self):
        self.made = True

    def __call__(self, x, y=2):
        return x + y

    @abc.abstractmethod
    def abstract(self): ...


async def coroutine(x, y=2):
    return x + y


def generator(n):
    got = []
    for i in range(n):
        got.append((yield i))
    return got


async def async_generator(n):
    got = []
    for i in range(n):
        got.append((yield i))
    yield got


CONSTANT = 3
