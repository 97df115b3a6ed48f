"""What a caption costs on this machine, and what could make it faster. Nothing heavy is imported here."""
