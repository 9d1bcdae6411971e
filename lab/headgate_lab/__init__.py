"""The laboratory of headgate: the papers' experiments, the benches and the demonstration. Not
part of the library.
"""
