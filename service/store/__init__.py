"""What outlives a call: responses, their events, conversations, in one SQL database."""
