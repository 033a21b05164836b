"""Turn test files into a validated Suite. Knows YAML; knows nothing of queues."""
