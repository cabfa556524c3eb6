"""How answers of several plugins combine: rules of a session by kind, votes, orders, and steps of equal tasks."""
