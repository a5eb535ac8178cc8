"""What the embedded engine cannot be: said in its own name, never in vLLM's."""


class NotSimulated(ValueError):
    """An argument with which every simulated figure would be a lie."""
