"""What ``weft top`` shows: ``board`` keeps the figures, ``asking`` gets them from nodes, ``app`` is the screen."""
