"""Plans exports, writes their files, and commits them."""
