"""Files that requests bring along: read as text before anything else sees them."""
