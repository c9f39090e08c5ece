"""The cluster as the console asks for it: topics, groups, brokers, changes."""
