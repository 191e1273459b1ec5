"""The two faces of the service, typed and HTTP, and what they share."""
