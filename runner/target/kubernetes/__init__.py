"""Engines as Deployments of a Kubernetes cluster."""
