"""Graph runners: decode graphs, ranks under data-parallel attention."""
