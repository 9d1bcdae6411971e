"""Repair: a bounded number of queries move after an event, so that fewer streams are sent."""
