"""Start, watch and stop the workers of a PyTorch distributed training run."""

__version__ = "0.1.0"
