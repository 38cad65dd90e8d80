"""A simulated inference engine with the protocols of services/triton_vllm."""
