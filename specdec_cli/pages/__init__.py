"""HTML pages in one file that fetch nothing: their templates, styles, scripts and sounds."""
