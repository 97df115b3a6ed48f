"""How good captions are, and what they cost: metrics, modes on the same recordings, and the page of a comparison.

Shares (accuracy, F1, exact) lie between 0 and 1; text scores (BLEU, chrF, ROUGE-L, BERTScore) between 0 and 100, as the
field prints them. Only what runs models imports torch.
"""
