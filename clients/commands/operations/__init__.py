"""Commands for whoever runs Ratchet for others: servers, tokens, teams, audit, retention, backups."""
