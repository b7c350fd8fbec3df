"""The misses together, for one run of the whole suite: b03, b15, b18, b19, b23."""
import b03, b15, b18, b19, b23

class P(b03.P, b15.P, b18.P, b19.P, b23.P):
    _forwards = b03.P._forwards
