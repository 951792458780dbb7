"""The paths of the HTTP API, a module for each subject."""
