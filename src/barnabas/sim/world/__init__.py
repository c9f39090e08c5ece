"""The simulated environment: event loop, hosts, network, disks, clocks, znode tree."""
