"""The scheduler on an in-memory cluster: manifests in, a result out (docs/cli.md describes both)."""
