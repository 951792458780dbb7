"""What a notebook shows of a run: plain HTML, style and drawings, without scripts, so that strict front ends show it, too."""
