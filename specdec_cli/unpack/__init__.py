"""Data sets whose recordings lie inside of other files: Parquet and Arrow of Hugging Face, tars of WebDataset."""
