"""Kafka topics as a source (`headgate.sources.Kafka`)."""
