"""The workers: Celery's side of the farm. The library knows nothing of them but the names of their tasks."""
