"""Staged buffers: host memory that is written each step, and its device tensor of fixed address."""
