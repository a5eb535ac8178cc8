"""Engines as Deployments of a cluster."""
