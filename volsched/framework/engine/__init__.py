"""Where can a task go, and where best: answers about nodes, kept until what they were made from has changed."""
