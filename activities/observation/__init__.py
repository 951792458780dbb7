"""What a worker shows of its work to those who watch it: meters, and spans of the calls that it makes."""
