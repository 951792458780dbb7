"""What clients, reports and replay read: consistent looks at what is stored; nothing here changes a row."""
