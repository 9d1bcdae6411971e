"""The arrays that hold a placement: who is where, reference counts of streams, loads, and the numbers of names."""
