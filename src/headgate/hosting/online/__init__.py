"""Online placement: the rules that choose a server for an arriving query, and the explanation of a choice."""
