"""The service's batches: which rows go to which server, the queries' work there, and the commit."""
