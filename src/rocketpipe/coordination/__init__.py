"""Who leads a group of replicas, decided by something that all of them can ask."""
