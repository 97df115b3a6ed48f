"""What a caption costs on this machine, in every mode."""
