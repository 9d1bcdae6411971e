"""Everything that is kept between batches: stores, state, backlog and output files, the commit
log, and the cache on executors.
"""
