"""Carry runs to workers and remember what became of them. Celery delivers, the ledger remembers."""
