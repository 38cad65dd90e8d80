"""OpenAI's Responses API, as vLLM has it: nothing is stored."""
