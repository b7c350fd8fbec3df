"""Functions, methods and submodules, and the regions that call them: what `torch.compile` is given."""

import torch

cut = torch.ops.hooked_regions.cut


def function(x, add=1.0):
    return x + add


def breaking(x, add=1.0):
    torch._dynamo.graph_break()
    return x + add


class Engine:
    offset = 3.0

    def method(self, x, *, add=2.0):
        return x + add

    @classmethod
    def class_method(cls, x):
        return x + cls.offset

    @staticmethod
    def static_method(x, add=4.0):
        return x + add


class Layer(torch.nn.Module):
    def forward(self, x, add=5.0):
        return x + add


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = cut(layer(x))
        return x


engine, model = Engine(), Model()


def of_function(x):
    return cut(function(x * 2)) * 3


def of_method(x):
    return cut(engine.method(x * 2, add=7.0)) * 3


def of_class_method(x):
    return cut(Engine.class_method(x * 2)) * 3


def of_static_method(x):
    return cut(engine.static_method(x * 2)) * 3


def of_submodule(x):
    return model(x * 2) * 3


def of_breaking(x):
    return cut(breaking(x * 2)) * 3
