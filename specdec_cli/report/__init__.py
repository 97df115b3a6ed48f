"""A comparison as tables of text and as one HTML file that opens anywhere, and the frontier as a picture."""
