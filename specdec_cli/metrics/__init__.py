"""How good captions are: against reference texts, against another model's captions, and against labels.

Shares (accuracy, F1, exact) are between 0 and 1; text scores (BLEU, chrF, ROUGE-L, BERTScore) between 0 and 100, as
their field prints them.
"""
