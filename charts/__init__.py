"""The Helm chart, and what makes its README of its values."""
