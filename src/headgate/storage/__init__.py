"""Everything that lasts: stores, the files of state, backlog and output, the commit log and the cache on executors."""
