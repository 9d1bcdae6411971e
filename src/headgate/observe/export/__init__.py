"""Where events and metrics go: an HTTP port, a text file, OpenTelemetry, logs. Here are clocks, threads and files."""
