"""Log directories, open files and reads from the page cache, behind a replaceable interface."""
