"""The parts of ``health``: signs of life, and the state of the devices that gave them."""
