"""The service over HTTP: routes, errors as responses, and the page."""
