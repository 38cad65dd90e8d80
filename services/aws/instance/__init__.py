"""What an instance knows of itself, and how it asks AWS."""
