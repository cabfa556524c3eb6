"""What queues say of cards: limits, guarantees, and what they deserve."""
