"""`specdec serve`: the cloud's half of the verification, for remote edges."""
