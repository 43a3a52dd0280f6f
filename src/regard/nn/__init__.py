"""Layers with parameters."""
