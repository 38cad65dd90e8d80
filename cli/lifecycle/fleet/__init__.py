"""Every target but dev: hosts are machines; backend and secrets provider are the user's."""
