"""Graph runners: decode graphs, pieces of a prefill, ranks with batches of their own."""
