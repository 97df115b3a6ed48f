"""Data sets that hold recordings inside files: Parquet and Arrow of Hugging Face, tars of WebDataset."""
