"""All of a gang's minimum, or nothing."""
