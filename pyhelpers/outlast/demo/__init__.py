"""A small, real language model trainer in NumPy: what `make demo` trains and the scheduler lab torments.

It behaves as a Hugging Face Trainer does: arguments, checkpoints, log lines, progress bar.
"""
