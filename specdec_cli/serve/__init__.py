"""`specdec serve`: the cloud's half of the verification, for clips whose edge is elsewhere."""
