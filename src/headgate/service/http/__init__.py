"""The service over HTTP: the application and its routes, errors as responses, the page, and the client."""
