"""The worker processes: what Celery starts. The library in `farm` never imports this."""
