"""The simulated machine room: loop, hosts, network, disks, clocks, coordination tree."""
