"""What the signals of accelerators mean, and which accelerators can be given to tasks."""
