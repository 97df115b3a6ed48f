"""How good captions are, and what they cost. Shares are between 0 and 1; text scores (BLEU, chrF ...) up to 100."""
