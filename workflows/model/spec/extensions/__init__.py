"""What every optimizer, target, scorer and plug-in that a spec names has in common."""
