"""How the answers of several plugins combine: the rules of a session by kind, votes, orders, and steps of equal tasks."""
