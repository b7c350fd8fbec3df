"""A piece of prefill is replayed by its token count alone, whatever addresses its arguments have: it computes on the tensors of the capture.
(vLLM and SGLang check the addresses in debug mode only, compilation/cuda_piecewise_backend.)"""
from base import WithParts
from sglang_platform.example_oot.graph_runner import ExampleOOTPiecewiseBackend


class Backend(ExampleOOTPiecewiseBackend):
    def __call__(self, *args):
        tokens = args[self.sym_shape_indices[0]] if self.sym_shape_indices else 0
        captured = self.captured.get(tokens)
        if captured is not None:
            captured.graph.replay()
            return captured.output
        return super().__call__(*args)


class Platform(WithParts):
    def get_piecewise_backend_cls(self):
        return Backend
