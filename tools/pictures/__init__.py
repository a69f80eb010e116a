"""``make pictures``: draw the SVGs of ARCHITECTURE.md and docs/, the rooms from their real imports.

``svg`` draws boxes and arrows on a grid; ``rooms`` reads imports; ``subjects`` says what the other pictures show.
"""
