"""Pictures of transcripts: how somebody speaks over the time of a recording, and where the models were unsure."""
