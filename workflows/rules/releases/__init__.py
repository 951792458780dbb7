"""Rules about releases: what may be released, as which version, and what is pending."""
