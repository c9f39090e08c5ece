"""`barnabas log`: dump, verify and count the files of a broker."""
