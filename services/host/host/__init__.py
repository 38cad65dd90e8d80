"""The agents of a host: files, supervisor, processes, and removal."""
