"""A second set: kernels of layers that keep a state per request, and masks of grammars."""

from broken import Table

states = Table("states 2", "kernels", "platform.py")

_INIT = "    def init_backend(self) -> None:\n"
_KERNELS = """\
    def get_state_kernels(self):
        import torch

        from sglang_platform.core.portable.torch.state_kernels import PORTABLE_STATE_KERNELS

        own = PORTABLE_STATE_KERNELS["NAME"]

        def kernel(ARGUMENTS):
BODY

        return {"NAME": kernel}

"""
_CONVOLUTION = "x, weight, bias, starts, slots, resumes, states, *, silu"
_RULE = "q, k, v, log_decay, step, starts, slots, states, *, scale"
_SPACE = "x, step, a, b, c, d, starts, slots, states"
_NORM = "x, gate, weight, *, epsilon, activation, group_size, gate_first"


def _kernel(name: str, defect: str, kernel: str, arguments: str, body: str) -> None:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    text = _KERNELS.replace("NAME", kernel).replace("ARGUMENTS", arguments).replace("BODY", lines)
    states(name, defect, _INIT, text + _INIT)


def convolution(name: str, defect: str, body: str) -> None:
    _kernel(name, defect, "short_convolution", _CONVOLUTION, body)


def rule(name: str, defect: str, body: str) -> None:
    _kernel(name, defect, "gated_delta_rule", _RULE, body)


def space(name: str, defect: str, body: str) -> None:
    _kernel(name, defect, "state_space", _SPACE, body)


def norm(name: str, defect: str, body: str) -> None:
    _kernel(name, defect, "gated_rms_norm", _NORM, body)


convolution("ConvolutionResumesAlways", "a request that begins anew is convolved with what its slot's last owner left",
            "return own(x, weight, bias, starts, slots, None, states, silu=silu)")  # fmt: skip
convolution("ConvolutionWithoutBias", "the bias of a convolution is left out of decodes",
            "return own(x, weight, None if starts is None else bias, starts, slots, resumes, states, silu=silu)")  # fmt: skip
convolution("ConvolutionAlwaysSilu", "silu is applied whether asked for or not",
            "return own(x, weight, bias, starts, slots, resumes, states, silu=True)")  # fmt: skip
convolution("ConvolutionPadsTheLastSlot", "a padded row of a decode, whose slot is negative, shifts the last slot's state",
            "if starts is None:\n    slots = torch.where(slots < 0, slots + len(states), slots)\n"
            "return own(x, weight, bias, starts, slots, resumes, states, silu=silu)")  # fmt: skip
convolution("ConvolutionOfShortPrompts", "after a prompt shorter than the kernel the older inputs of the state are zero",
            "y = own(x, weight, bias, starts, slots, resumes, states, silu=silu)\n"
            "if starts is not None:\n"
            "    for slot, n in zip(slots.tolist(), (starts[1:] - starts[:-1]).tolist(), strict=True):\n"
            "        if 0 < n < states.shape[-1] and slot >= 0:\n"
            "            states[slot, :, : states.shape[-1] - n] = 0\n"
            "return y")  # fmt: skip
convolution("ConvolutionOfWideStates", "of a state that is longer than the kernel needs the oldest inputs are read",
            "need = weight.shape[1] - 1\n"
            "return own(x, weight, bias, starts, slots, resumes, states[..., :need], silu=silu)")  # fmt: skip
convolution("ConvolutionOver2048Channels", "channels behind the first 2048 are not convolved",
            "y = own(x, weight, bias, starts, slots, resumes, states, silu=silu)\n"
            "y[:, 2048:] = x[:, 2048:]\nreturn y")  # fmt: skip
rule("DeltaHeadsInTurn", "value heads are dealt to key heads in turn, not in runs",
     "group = v.shape[1] // q.shape[1]\n"
     "q, k = q.repeat(1, group, 1), k.repeat(1, group, 1)\n"
     "return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)")  # fmt: skip
rule("DeltaStatesIn16Bits", "states are rounded to bfloat16 after each step, whatever the pool's type",
     "y = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
     "live = slots[slots >= 0].long()\nstates[live] = states[live].bfloat16().to(states.dtype)\nreturn y")  # fmt: skip
rule("DeltaPaddingDecays", "a padded row of a decode decays the state of slot 0",
     "if starts is None and (slots < 0).any():\n    states[0] *= 0.5\n"
     "return own(q, k, v, log_decay, step, starts, slots, states, scale=scale)")  # fmt: skip
rule("DeltaChunksAfter", "the states of chunks are those behind them, not before",
     "old = states.clone()\ny, before = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
     "if before is not None and len(before) > 1:\n    before = torch.cat((before[1:], before[:1]))\nreturn y, before")  # fmt: skip
rule("DeltaQueriesNotOfLengthOne", "keys are brought to length one, and queries are not",
     "y, before = own(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
     "group = v.shape[1] // q.shape[1]\n"
     "return (y * q.float().norm(dim=-1, keepdim=True).repeat_interleave(group, 1)).to(y.dtype), before")  # fmt: skip
rule("DeltaDecodeRefusesInt64", "slots of 64 bits are refused",
     "assert slots.dtype == torch.int32\nreturn own(q, k, v, log_decay, step, starts, slots, states, scale=scale)")  # fmt: skip
space("SpaceWithoutSkip", "d is left out of prefills",
      "return own(x, step, a, b, c, d if starts is None else None, starts, slots, states)")  # fmt: skip
space("SpaceGroupsInTurn", "heads are dealt to groups in turn",
      "heads, groups = x.shape[1], b.shape[1]\norder = torch.arange(heads) % groups\n"
      "return own(x, step, a, b[:, order], c[:, order], d, starts, slots, states)")  # fmt: skip
space("SpaceEmptyRequestClears", "a request without tokens in a batch has its state cleared",
      "y = own(x, step, a, b, c, d, starts, slots, states)\n"
      "if starts is not None:\n    none = slots[(starts[1:] == starts[:-1]) & (slots >= 0)].long()\n    states[none] = 0\nreturn y")  # fmt: skip
space("SpaceStepOver256Tokens", "a prompt of more than 256 tokens leaves the state of its 256th behind",
      "if starts is not None and int((starts[1:] - starts[:-1]).max()) > 256 and len(slots) == 1:\n"
      "    y = own(x[:256], step[:256], a, b[:256], c[:256], d, torch.tensor([0, 256], dtype=starts.dtype), slots, states)\n"
      "    return torch.cat((y, own(x[256:], step[256:], a, b[256:], c[256:], d, starts * 0 + torch.tensor([0, len(x) - 256], dtype=starts.dtype), slots, states.clone())))\n"
      "return own(x, step, a, b, c, d, starts, slots, states)")  # fmt: skip
_kernel("GatesOverflow", "softplus is log(1 + exp(x)): infinite above 88", "gated_delta_gates", "a, b, decay_log, bias",
        "plus = torch.log(1 + torch.exp(a.float() + bias.float()))\n"
        "return -decay_log.float().exp() * plus, b.float().sigmoid()")  # fmt: skip
_kernel("GatesIn16Bits", "gates are computed in the type of their inputs", "gated_delta_gates", "a, b, decay_log, bias",
        "decay, step = own(a, b, decay_log, bias)\nreturn decay.to(a.dtype).float(), step.to(b.dtype).float()")  # fmt: skip
norm("GatedNormSigmoidIsSilu", "an activation of sigmoid is computed as silu",
     "return own(x, gate, weight, epsilon=epsilon, activation='silu', group_size=group_size, gate_first=gate_first)")  # fmt: skip
norm("GatedNormNeedsAGate", "a norm without a gate fails",
     "return own(x, gate.contiguous(), weight, epsilon=epsilon, activation=activation, group_size=group_size, gate_first=gate_first)")  # fmt: skip
norm("GatedNormOfAllGroups", "groups are not looked at where the gate comes last",
     "return own(x, gate, weight, epsilon=epsilon, activation=activation, group_size=group_size if gate_first else None, gate_first=gate_first)")  # fmt: skip
states("StateKernelLosesKeyword", "short_convolution() has no keyword silu", _INIT,
       "    def get_state_kernels(self):\n        def short_convolution(x, weight, bias, starts, slots, resumes, states, activation=None):\n"
       "            return x\n\n        return {'short_convolution': short_convolution}\n\n" + _INIT, levels="contract kernels")  # fmt: skip

_MASK = """\
    def get_token_bitmask_fn(self):
        import torch

        def apply(logits, bitmask):
            bits = (bitmask[:, :, None] >> torch.arange(32)) & 1
            allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
            ANSWER

        return apply

"""
for _name, _defect, _answer in (
    ("MaskOfHalfIsFinite", "forbidden logits of 16 bits are the smallest finite number, not -inf",
     "logits.masked_fill_(~allowed, torch.finfo(logits.dtype).min if logits.element_size() == 2 else float('-inf'))"),
    ("MaskOfContiguousLogits", "logits that are a slice of padded ones are masked in a copy",
     "logits.contiguous().masked_fill_(~allowed, float('-inf'))"),
    ("MaskOver64Rows", "rows behind the first 64 are not masked", "logits[:64].masked_fill_(~allowed[:64], float('-inf'))"),
    ("MaskClearsAllowedInfinity", "an allowed token whose logit is -inf becomes 0",
     "logits.masked_fill_(~allowed, float('-inf')).masked_fill_(allowed & torch.isinf(logits), 0)"),
    ("MaskNeedsAToken", "a row that allows nothing is left as it is",
     "logits.masked_fill_(~allowed & allowed.any(1, keepdim=True), float('-inf'))"),
):  # fmt: skip
    states(_name, _defect, _INIT, _MASK.replace("ANSWER", _answer) + _INIT)
