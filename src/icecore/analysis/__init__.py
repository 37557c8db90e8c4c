"""Looking inside: pure functions, weights and a batch in, numbers out. Each has its control."""
