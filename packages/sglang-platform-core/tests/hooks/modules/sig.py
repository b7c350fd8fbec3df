"""Functions and methods whose parameters a hook must fit."""


def two(a, b):
    return a, b


def optional(a, b=1):
    return a, b


def keyword(a, *, k=1):
    return a, k


def many(a, *args):
    return a


def open(a, **kwargs):
    return a


class C:
    def method(self, a):
        return a

    @staticmethod
    def static(a):
        return a

    @classmethod
    def class_(cls, a):
        return a

    @property
    def prop(self):
        return 1
