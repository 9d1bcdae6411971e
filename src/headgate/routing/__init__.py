"""Routing: which key goes to which bin, which bin goes to which channel, and how this is chosen."""
