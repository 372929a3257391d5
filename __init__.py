"""stepscope: where the time of an LLM inference step goes."""

__version__ = "0.1.0"
