"""A cloud that is not loaded here: how it is reached, what goes over the wire, and what happens when it fails."""
