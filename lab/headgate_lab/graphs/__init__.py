"""Graphs as arrays: a generator of graphs like social networks, edges that are cleaned and
oriented, cliques counted on one machine.
"""

from headgate_lab.graphs.count import count_cliques
from headgate_lab.graphs.edges import Adjacency, Cleaned, Edges, clean, orient
from headgate_lab.graphs.rmat import rmat

__all__ = ["Adjacency", "Cleaned", "Edges", "clean", "count_cliques", "orient", "rmat"]
