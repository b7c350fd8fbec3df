"""Reached with speculative decoding alone."""

import torch


def draft(batch):
    return verify(batch)


def verify(batch):
    return torch.cuda.Event(), batch
