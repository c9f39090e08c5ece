"""The disk seam: log directories, open files, and what the page cache holds of them."""
