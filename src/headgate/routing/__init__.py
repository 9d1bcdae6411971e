"""Routing: which key goes to which bin, which bin to which channel, and how those choices are made."""
