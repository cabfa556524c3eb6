"""Share GPU cards between containers, and choose which cards each container gets."""
