"""Find passages and make contexts."""
