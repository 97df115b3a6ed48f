"""Reviewing captions: the order of the pieces, and a page that plays them and takes corrections."""
