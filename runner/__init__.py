"""Declarative experiments for LLM serving: a YAML spec in, a comparison that can be trusted out.

Data flows one way: spec -> plan -> target + load + sample -> record -> analysis and checks -> report.
"""

__version__ = "0.1.0"
