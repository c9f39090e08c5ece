"""Commands about access: ACLs and client quotas."""
