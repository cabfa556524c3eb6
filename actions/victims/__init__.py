"""Making room: who would have to go for a task, on which nodes, and at what cost to others."""
