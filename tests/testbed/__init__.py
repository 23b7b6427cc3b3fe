"""Eight hosts on one machine: network namespaces, real OpenSSH, a real container engine on each, and faults on demand."""
