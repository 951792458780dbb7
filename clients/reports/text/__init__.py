"""What a terminal shows of a run: boxes, lines, and a picture that is drawn in place."""
