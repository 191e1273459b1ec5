"""What the service does, operation by operation, for both faces: responses made, kept, continued, resumed."""
