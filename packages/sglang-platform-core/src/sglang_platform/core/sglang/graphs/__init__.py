"""Graph runners: decode graphs, piecewise prefill graphs, ranks under data-parallel attention."""
