"""The live page of a query: what its journal and its commits say, as a view model, and the server of the page."""
