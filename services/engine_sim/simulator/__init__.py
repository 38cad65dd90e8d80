"""A simulated inference engine with the doors of services/triton_vllm."""
