"""Eight hosts on one machine: network namespaces, OpenSSH, a container engine on each, and faults on demand."""
