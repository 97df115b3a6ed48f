"""Reviewing captions: which pieces are doubtful, and a page that plays them and takes corrections."""
