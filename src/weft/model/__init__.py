"""Values: what an event, a topic, a stream and a batch are. Pure; nothing here does I/O."""
