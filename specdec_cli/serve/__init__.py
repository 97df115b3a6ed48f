"""`specdec serve`: captions by the OpenAI API, a page to try it, and the cloud's verification for remote edges."""
