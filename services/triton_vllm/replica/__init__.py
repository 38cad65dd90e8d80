"""The task of a replica: starts Triton and vLLM, watches every part, drains, cleans up."""
