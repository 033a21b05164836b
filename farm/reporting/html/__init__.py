"""Turn a report and its transcripts into one page that needs no network."""
