"""What the commands of the command line share (`console`, `local_spark`), and those too small for a package of their own."""
