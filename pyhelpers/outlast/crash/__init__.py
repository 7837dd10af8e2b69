"""What a log says about the end of a training run: what failed, who is to blame, what to do."""
