"""Remote models: how a server is reached, what is sent to it, and what happens when it fails."""
