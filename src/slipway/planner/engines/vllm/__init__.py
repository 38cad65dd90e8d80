"""vLLM behind Triton: services/triton_vllm."""
