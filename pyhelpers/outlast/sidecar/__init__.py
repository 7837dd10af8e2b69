"""What makes checkpoints durable while training runs: a coordinator on the first node, an agent on each."""
