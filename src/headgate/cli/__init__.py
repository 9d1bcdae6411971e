"""The command line: `app` names the commands, each of which lives in a module of its own."""
