"""What commands read: recordings by path, folder, pattern, list or manifest, and tables of references."""
