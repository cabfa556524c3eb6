"""The scheduler on an in-memory cluster: manifests in, a result out (see SIMULATE.md for the contract)."""
