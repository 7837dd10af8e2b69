"""outlast keeps a training run alive on a supercomputer that its owner does not control."""

__version__ = "0.1.0"
